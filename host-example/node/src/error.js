/**
 * A call of a policy that failed. The message goes on after "the policy"; `refusal` is the contract's `policy-error`
 * when the policy itself answered with one.
 */
export class CallError extends Error {
    constructor(message, refusal) {
        super(message);
        this.refusal = refusal;
    }
}
