// Asks for what every view needs while the rest of the page is still loading; the answers are kept in api.js.

import * as api from "./api.js";
import { language, load } from "./words.js";

const asked = new URLSearchParams(location.hash.slice(1)).get("lang") ?? new URLSearchParams(location.search).get("lang");
load(asked ?? navigator.language.split("-")[0]).catch(() => {});
api
  .config()
  .then(({ languages, defaultLanguage }) => {
    const offered = languages.map(({ id }) => id);
    return api.releases(language(asked, offered, defaultLanguage));
  })
  .catch(() => {}); // the page asks again and says what is wrong
