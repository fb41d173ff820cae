// What the user interface of PxWeb 2 asks for, through a client that was generated as its own is.
// Told in the environment: the client, the service, a table of towns, its variable of areas and a code list of regions.

const { CLIENT, SERVICE, TABLE, AREA, LIST } = process.env;
const { DefaultService: api, OpenAPI } = await import(CLIENT);
OpenAPI.BASE = SERVICE;

/** The variables and cells of a dataset, as that interface reads them. */
function read({ id, dimension, value, role, label, updated, extension }) {
  const variables = Object.entries(dimension).map(([name, { category, extension: more }]) => ({
    name,
    codes: Object.entries(category.index).sort((a, b) => a[1] - b[1]).map(([code]) => code),
    labels: category.label,
    mandatory: !more?.elimination,
    lists: (more?.codeLists ?? []).map((one) => one.id),
    kind: role.time?.includes(name) ? "time" : role.geo?.includes(name) ? "geo" : role.metric?.includes(name) ? "metric" : "",
  }));
  const { stub, heading, tableid, language } = extension.px;
  return { id, variables, value, stub, heading, tableid, language, label, updated };
}

const told = {};
told.config = await api.getApiConfiguration();
told.tables = (await api.listAllTables("en", undefined, undefined, true, 1, 10_000)).tables;
told.found = (await api.listAllTables("en", "sex", undefined, true, 1, 10_000)).tables.map((one) => one.id);
told.root = await api.getNavigationRoot("en");
told.folder = await api.getNavigationById(told.root.folderContents[0].id, "en");
told.table = await api.getTableById(TABLE, "en");
told.metadata = read(await api.getMetadataById(TABLE, "en", true));
told.chosen = await api.getDefaultSelection(TABLE, "en");
const { selection } = told.chosen;
told.shown = read(await api.getTableDataByPost(TABLE, "en", "json-stat2", undefined, { selection }));
const placement = { stub: [selection[1].variableCode], heading: [selection[0].variableCode] };
told.turned = read(await api.getTableDataByPost(TABLE, "en", "json-stat2", undefined, { selection, placement }));
const values = Object.fromEntries(selection.map(({ variableCode, valueCodes }) => [variableCode, valueCodes.slice(0, 2)]));
told.some = read(await api.getTableData(TABLE, "en", values, undefined, "json-stat2", undefined, [AREA], undefined));
told.csv = await api.getTableData(TABLE, "en", values, undefined, "csv", ["UseCodes", "SeparatorSemicolon"]);
told.listed = read(await api.getMetadataById(TABLE, "en", true, undefined, { [AREA]: LIST }));
told.list = await api.getTableCodeListById(LIST, "en");
const regions = selection.map((one) => (one.variableCode === AREA ? { variableCode: AREA, codelist: LIST, valueCodes: ["*"] } : one));
told.regions = read(await api.getTableDataByPost(TABLE, "en", "json-stat2", undefined, { selection: regions }));
told.saved = await api.createSaveQuery({ tableId: TABLE, language: "en", selection: { selection: regions } });
const { id } = told.saved;
told.opened = await api.getSaveQuery(id);
told.reopened = await api.getSavedSelection(id, "en");
told.again = read(await api.getMetadataById(TABLE, "en", true, id));
told.run = read(await api.runSaveQuery(id, "en", "json-stat2"));
try {
  await api.getTableById("nothing", "en");
} catch (problem) {
  told.problem = problem.body;
}
console.log(JSON.stringify(told));
