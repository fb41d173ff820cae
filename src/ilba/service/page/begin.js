// Asks for what every view needs while the rest of the page is still loading; the answers are kept in api.js.

import * as api from "./api.js";
import { language } from "./words.js";

const asked = new URLSearchParams(location.hash.slice(1)).get("lang");
api.releases(language(asked)).catch(() => {}); // the page asks again and says what is wrong
api.config().catch(() => {});
