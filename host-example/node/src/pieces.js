/** A text that one thread gives to another as UTF-8. The other one works on the first pieces of a large text while the next are encoded. */

import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";

/** Most bytes of a piece. */
const PIECE_BYTES = 512 * 1024;

/** Most bytes of UTF-8 for a unit of UTF-16. */
const UNIT_BYTES_MAX = 3;

const ENCODER = new TextEncoder();

/** Gives a thread a job with a text, of which it has the member `text`, for `received`. */
export function post(worker, job, text) {
    if (UNIT_BYTES_MAX * text.length <= PIECE_BYTES) {
        const whole = ENCODER.encode(text);
        worker.postMessage({ ...job, text: whole }, [whole.buffer]);
        return;
    }
    const { port1, port2 } = new MessageChannel();
    const count = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    worker.postMessage({ ...job, text: { port: port2, count } }, [port2]);
    const send = (piece, transfer) => {
        port1.postMessage(piece, transfer);
        Atomics.add(count, 0, 1);
        Atomics.notify(count, 0);
    };
    for (const piece of encoded(text)) {
        send(piece, [piece.buffer]);
    }
    send(null);
    port1.close();
}

function* encoded(text) {
    for (let at = 0; at < text.length; ) {
        // Not from the pool that others have a part in.
        const piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
        const { read, written } = ENCODER.encodeInto(text.slice(at), piece);
        at += read;
        yield piece.subarray(0, written);
    }
}

/** The bytes of the text of a job, whole or in pieces; the thread waits for each. */
export function received(text) {
    return text instanceof Uint8Array ? text : taken(text);
}

function* taken({ port, count }) {
    try {
        for (let number = 0; ; number += 1) {
            Atomics.wait(count, 0, number);
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
