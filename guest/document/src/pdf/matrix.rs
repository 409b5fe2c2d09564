//! Affine maps of the plane, as PDF writes them.

use lopdf::Object;

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The map of (x, y) to (a x + c y + e, b x + d y + f).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Matrix {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
    f: f64,
}

impl Matrix {
    pub(super) const IDENTITY: Self = Self { a: 1.0, b: 0.0, c: 0.0, d: 1.0, e: 0.0, f: 0.0 };

    pub(super) const fn translation(x: f64, y: f64) -> Self {
        Self { e: x, f: y, ..Self::IDENTITY }
    }

    /// From the six operands of an operator, or of an array.
    pub(super) fn from_objects(objects: &[Object]) -> Option<Self> {
        let [a, b, c, d, e, f] = objects else { return None };
        let number = |object: &Object| object.as_float().ok().map(f64::from);
        Some(Self { a: number(a)?, b: number(b)?, c: number(c)?, d: number(d)?, e: number(e)?, f: number(f)? })
    }

    /// The map that applies this one first, and then `next`.
    pub(super) fn then(&self, next: &Self) -> Self {
        Self {
            a: self.a * next.a + self.b * next.c,
            b: self.a * next.b + self.b * next.d,
            c: self.c * next.a + self.d * next.c,
            d: self.c * next.b + self.d * next.d,
            e: self.e * next.a + self.f * next.c + next.e,
            f: self.e * next.b + self.f * next.d + next.f,
        }
    }

    pub(super) fn apply(&self, x: f64, y: f64) -> Point {
        Point { x: self.a * x + self.c * y + self.e, y: self.b * x + self.d * y + self.f }
    }

    /// The length of what was one unit high.
    pub(super) fn height(&self) -> f64 {
        self.c.hypot(self.d)
    }

    /// The direction of what pointed right, of length 1; to the right if it has no length.
    pub(super) fn direction(&self) -> Point {
        let length = self.a.hypot(self.b);
        if length > 0.0 { Point { x: self.a / length, y: self.b / length } } else { Point { x: 1.0, y: 0.0 } }
    }
}
