/** A text that one thread gives to another as UTF-8, piece by piece: the other one works on the first while the next is encoded. */

import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";

/** Most bytes of a piece. */
const PIECE_BYTES = 512 * 1024;

/** Most bytes of UTF-8 for a unit of UTF-16. */
const UNIT_BYTES_MAX = 3;

const ENCODER = new TextEncoder();

/** The two ends for a text: `own` sends its pieces, and `other` is moved to the thread that receives them. */
export function ends() {
    const { port1, port2 } = new MessageChannel();
    const count = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    return { own: { port: port1, count }, other: { port: port2, count } };
}

/** Sends a text. */
export function send({ port, count }, text) {
    const post = (piece, transfer) => {
        port.postMessage(piece, transfer);
        Atomics.add(count, 0, 1);
        Atomics.notify(count, 0);
    };
    for (let at = 0; at < text.length; ) {
        // Not from the pool that others have a part in.
        const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, UNIT_BYTES_MAX * (text.length - at)));
        const { read, written } = ENCODER.encodeInto(text.slice(at), piece);
        post(piece.subarray(0, written), [piece.buffer]);
        at += read;
    }
    post(null);
    port.close();
}

/** The pieces that are received, each when it is there: the thread waits for it. */
export function* received({ port, count }) {
    try {
        for (let taken = 0; ; taken += 1) {
            Atomics.wait(count, 0, taken);
            const { message: piece } = receiveMessageOnPort(port);
            if (piece === null) {
                return;
            }
            yield piece;
        }
    } finally {
        port.close();
    }
}
