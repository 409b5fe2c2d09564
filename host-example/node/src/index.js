export { Filter } from "./filter.js";
export { listItems, records } from "./reading.js";
export { offloadable } from "./schema.js";
