//! The range of the times of a log.

use std::cmp::Ordering;

use crate::structure::{Layout, Time};

/// The times so far.
#[derive(Debug, Default)]
pub(super) struct Times {
    ends: Option<Ends>,
}

#[derive(Debug)]
struct Ends {
    first: Kept,
    last: Kept,
    /// The least and the greatest; nothing when some cannot be compared.
    extremes: Option<[Kept; 2]>,
}

/// A time, and the memory for the next one.
#[derive(Clone, Debug)]
struct Kept {
    text: Vec<u8>,
    layout: Layout,
}

impl Times {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    pub(super) fn add(&mut self, time: Time<'_>) {
        match &mut self.ends {
            Some(ends) => ends.add(time),
            None => self.ends = Some(Ends::new(time)),
        }
    }

    /// The least and the greatest time where all can be compared, otherwise the first and the last.
    pub(super) fn range(&self) -> Option<(String, String)> {
        let ends = self.ends.as_ref()?;
        let (from, to) = match &ends.extremes {
            Some([least, greatest]) if least.time().is_surely_before(greatest.time()) => (least, greatest),
            _ => (&ends.first, &ends.last),
        };
        let text = |time: &Kept| String::from_utf8_lossy(&time.text).into_owned();
        Some((text(from), text(to)))
    }
}

impl Ends {
    fn new(time: Time<'_>) -> Self {
        let only = Kept { text: time.text.to_vec(), layout: time.layout };
        Self { first: only.clone(), last: only.clone(), extremes: Some([only.clone(), only]) }
    }

    fn add(&mut self, time: Time<'_>) {
        self.last.set(time);
        let Some([least, greatest]) = &mut self.extremes else { return };
        let (order, replaced) = match time.order(greatest.time()) {
            Some(Ordering::Less) => (time.order(least.time()).map(Ordering::reverse), least),
            order => (order, greatest),
        };
        match order {
            Some(Ordering::Greater) => replaced.set(time),
            Some(_) => {}
            None => self.extremes = None,
        }
    }
}

impl Kept {
    fn time(&self) -> Time<'_> {
        Time { text: &self.text, layout: self.layout }
    }

    fn set(&mut self, time: Time<'_>) {
        self.text.clear();
        self.text.extend_from_slice(time.text);
        self.layout = time.layout;
    }
}
