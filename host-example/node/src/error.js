/**
 * A failed call. The message continues the words "the policy"; `wrote` says whether it had been asked to write, `isFault` whether
 * it is the policy's fault.
 */
export class CallError extends Error {
    constructor(message, wrote = false, isFault = true) {
        super(message);
        this.wrote = wrote;
        this.isFault = isFault;
    }
}

/** A protocol error of a request to read, with its code of JSON-RPC. */
export class ReadError extends Error {
    constructor(code, message) {
        super(message);
        this.code = code;
    }
}
