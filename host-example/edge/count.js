/** Lets a core module of a component that is trusted end when it has done too much: what it is asked may have no end. */

import binaryen from "binaryen";

import { EXHAUSTED } from "../node/src/component.js";

/** The function that binaryen has called where a function begins or returns, and where a round of a loop begins. */
const STEP = "log_execution";

const FUEL = "lro_fuel";

/** The module, which traps in a function with the name `EXHAUSTED` after so many steps of an instance. */
export function counted(bytes, fuel) {
    const module = binaryen.readBinary(bytes);
    module.setFeatures(binaryen.Features.All);
    module.runPasses([STEP.replace("_", "-")]);
    module.removeFunction(STEP);
    module.addGlobal(FUEL, binaryen.i32, true, module.i32.const(fuel));
    const left = () => module.global.get(FUEL, binaryen.i32);
    const exhausted = module.call(EXHAUSTED, [], binaryen.none);
    const step = module.block(null, [
        module.if(module.i32.eqz(left()), exhausted),
        module.global.set(FUEL, module.i32.sub(left(), module.i32.const(1))),
    ]);
    module.addFunction(EXHAUSTED, binaryen.none, binaryen.none, [], module.unreachable());
    module.addFunction(STEP, binaryen.createType([binaryen.i32]), binaryen.none, [], step);
    // Stack traces show its name.
    binaryen.setDebugInfo(true);
    const made = module.emitBinary();
    module.dispose();
    return made;
}
