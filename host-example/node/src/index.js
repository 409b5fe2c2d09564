export { Filter } from "./filter.js";
export { offloadable } from "./schema.js";
