/**
 * A failed policy call. The message continues the words "the policy"; `refusal` is the contract's `policy-error` when
 * the policy itself returned one.
 */
export class CallError extends Error {
    constructor(message, refusal) {
        super(message);
        this.refusal = refusal;
    }
}
