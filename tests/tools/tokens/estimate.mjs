// The estimate of tokens that `size-unit` of the contract defines, written apart from that of the components, to compare
// them. Costs are in hundredths of a token.

const [OTHER, LETTER, DIGIT, SIGN, BREAK, TAB, SPACE] = [0, 1, 2, 3, 4, 5, 6];

/** A character beyond ASCII, from the code point on. */
const BEYOND_ASCII = [
    [0x80, 217], [0x100, 263], [0x300, 50], [0x370, 133], [0x400, 58], [0x450, 283], [0x530, 215], [0x590, 107],
    [0x600, 110], [0x900, 134], [0x980, 217], [0xa00, 318], [0xb00, 217], [0xe00, 180], [0xe80, 304], [0x1000, 101],
    [0x10a0, 137], [0x1100, 101], [0x1200, 302], [0x1e00, 287], [0x1f00, 133], [0x2000, 120], [0x2070, 172],
    [0x2500, 180], [0x25a0, 172], [0x3000, 90], [0x3040, 104], [0x3100, 101], [0xa000, 250], [0xac00, 143],
    [0xd7a4, 250], [0xf900, 101], [0xfb00, 250], [0xfe00, 90], [0x10000, 241],
];

const ASCII = Uint8Array.from({ length: 128 }, (_, code) => classOf(String.fromCharCode(code)));

function classOf(character) {
    if (/[A-Za-z]/.test(character)) {
        return LETTER;
    }
    return /[0-9]/.test(character) ? DIGIT : ({ " ": SPACE, "\t": TAB, "\r": BREAK, "\n": BREAK }[character] ?? SIGN);
}

/** Counts a text that is given in pieces, cut between characters. */
export class Tokens {
    #hundredths = 0;
    #bytes = 0;
    #class = OTHER;
    #last = 0;
    /** Letters of the piece before the last letter. */
    #position = 0;
    /** Digits, or capitals, of the run so far. */
    #digits = 0;
    #capitals = 0;

    push(text) {
        for (let at = 0; at < text.length; at += 1) {
            const code = text.codePointAt(at);
            if (code > 0xffff) {
                at += 1;
            }
            this.#bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            this.#hundredths += this.#next(code);
        }
        return this;
    }

    get count() {
        return Math.min(Math.ceil(this.#hundredths / 100), this.#bytes);
    }

    #next(code) {
        const [before, last] = [this.#class, this.#last];
        const isLetter = code < 0x80 ? ASCII[code] === LETTER : code < 0x300 || (code >= 0x1e00 && code < 0x1f00);
        this.#class = isLetter ? LETTER : code < 0x80 ? ASCII[code] : OTHER;
        this.#last = code;
        if (isLetter) {
            return this.#letter(code, before, last) + beyondAscii(code);
        }
        this.#capitals = 0;
        const isFirst = this.#class !== before;
        return (before === LETTER && this.#position >= 3 && isVowel(last) ? 112 : 0) + this.#sign(code, isFirst, before, last);
    }

    #letter(code, before, last) {
        const isCapital = code >= 0x41 && code <= 0x5a;
        const isFirst = before !== LETTER || (isCapital && this.#capitals === 0);
        const wasT = before === LETTER && this.#position === 0 && isSmall(last, 0x74);
        this.#capitals = isCapital ? this.#capitals + 1 : 0;
        const second = this.#capitals === 2 ? 108 : 0;
        if (isFirst) {
            this.#position = 0;
            return second + (isSmall(code, 0x74) ? 30 : 115);
        }
        this.#position += 1;
        const isLonger = this.#position >= 16 && (code >= 0x80 || code !== last);
        const long = this.#position < 8 ? 0 : isLonger ? 60 : 30;
        return second + long + (wasT && !isSmall(code, 0x68) ? 85 : 0);
    }

    #sign(code, isFirst, before, last) {
        switch (this.#class) {
            case DIGIT: {
                this.#digits = isFirst ? 1 : this.#digits + 1;
                return (this.#digits % 3 === 1 ? 114 : 0) + (before === SPACE ? 85 : 0);
            }
            case SIGN:
                return isFirst ? 79 : code === last ? 16 : 11;
            case BREAK:
                return isFirst ? 110 : 6;
            case TAB:
                return 42;
            case SPACE:
                return isFirst ? 0 : 1;
            default:
                return beyondAscii(code);
        }
    }
}

/** Estimated tokens of a text. */
export function tokens(text) {
    return new Tokens().push(text).count;
}

/** Whether a letter is this small letter of ASCII, or its capital. */
function isSmall(code, small) {
    return code < 0x80 && (code | 0x20) === small;
}

function isVowel(code) {
    return isSmall(code, 0x61) || isSmall(code, 0x69) || isSmall(code, 0x6f) || isSmall(code, 0x75);
}

function beyondAscii(code) {
    if (code < 0x80) {
        return 0;
    }
    let [low, high] = [0, BEYOND_ASCII.length];
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        [low, high] = BEYOND_ASCII[middle][0] <= code ? [middle, high] : [low, middle];
    }
    return BEYOND_ASCII[low][1];
}
