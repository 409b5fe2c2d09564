export { offloadable } from "./adapter.js";
export { ReadError } from "./error.js";
export { Filter } from "./filter.js";
export { GUIDANCE, TEMPLATE, TOOLS } from "./reader.js";
export { listItems, records } from "./reading.js";
