/** Resolves what only a component can import to its stand-in. */
export function resolve(specifier, context, next) {
    return specifier.startsWith("wasi:") ? { url: new URL("host.js", import.meta.url).href, shortCircuit: true } : next(specifier, context);
}
