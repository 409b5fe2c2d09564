/** A failed call. The message continues the words "the policy"; `wrote` says whether it had been asked to write. */
export class CallError extends Error {
    constructor(message, wrote = false) {
        super(message);
        this.wrote = wrote;
    }
}
