/** A file or directory of `wasi:filesystem`, for the component that reads offloads: what it cannot do throws `not-permitted`. */
export class Descriptor {
    openAt() {
        throw "not-permitted";
    }

    read() {
        throw "not-permitted";
    }
}
