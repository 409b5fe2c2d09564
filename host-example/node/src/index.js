export { offloadable } from "./adapter.js";
export { Filter } from "./filter.js";
export { listItems, records } from "./reading.js";
