/** A text that one thread gives to another as UTF-8. The other one works on the first pieces of a large text while the next are encoded. */

import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";

/** Most bytes of a piece. */
const PIECE_BYTES = 512 * 1024;

/** Most bytes of UTF-8 for a unit of UTF-16. */
const UNIT_BYTES_MAX = 3;

/** Units at the beginning of a text whose bytes say how many it has, and how many more than that there is room for. */
const SAMPLE_UNITS = 64 * 1024;
const ROOM = 9 / 8;

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
    worker.postMessage({ ...job, text: { port: port2, count, expected: expected(text) } }, [port2]);
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

/** About how many bytes a long text has, as counting them takes as long as encoding them. */
function expected(text) {
    const sample = ENCODER.encode(text.slice(0, SAMPLE_UNITS)).length;
    return Math.ceil((sample / SAMPLE_UNITS) * text.length * ROOM);
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

/** The bytes of the text of a job, whole, or in pieces with about how many are `expected`; the thread waits for each. */
export function received(text) {
    return text instanceof Uint8Array ? text : { expected: text.expected, [Symbol.iterator]: () => taken(text) };
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
            // Frees its memory: left to the garbage collector, the pieces make it run in every call.
            piece.buffer.transfer(0);
        }
    } finally {
        port.close();
    }
}
