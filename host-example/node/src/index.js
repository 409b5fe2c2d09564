export { offloadable } from "./adapter.js";
export { Filter } from "./filter.js";
export { GUIDANCE, TEMPLATE, TOOLS } from "./reader.js";
export { listItems, records } from "./reading.js";
