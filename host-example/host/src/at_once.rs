//! The same work on several things at the same time.

use std::panic::resume_unwind;
use std::thread;

use parking_lot::Mutex;

/// Does the work for each item, on up to so many threads, which are named, and this one. Returns what came of all, in their order, or
/// an error of one.
pub(crate) fn each_at_once<I: Send, T: Send, E: Send>(
    name: &str,
    threads_max: usize,
    items: Vec<I>,
    work: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = threads_max.min(items.len());
    let left = Mutex::new(items.into_iter().enumerate());
    let work_off = || {
        let mut done = Vec::new();
        loop {
            let next = left.lock().next();
            let Some((place, item)) = next else { return Ok(done) };
            done.push((place, work(item)?));
        }
    };
    let done: Result<Vec<Vec<_>>, E> = thread::scope(|scope| {
        // Without this thread, the others do its work.
        let start = |_| thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work_off).ok();
        let threads: Vec<_> = (1..threads).filter_map(start).collect();
        let own = work_off();
        let others = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        others.chain([own]).collect()
    });
    let mut done: Vec<_> = done?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, done)| done).collect())
}
