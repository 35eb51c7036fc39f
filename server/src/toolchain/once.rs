//! Equal requests at once are worked on once: the first leads, the others wait for its result.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cache::Key;

/// How often one who waits looks whether it was cancelled.
const TICK: Duration = Duration::from_millis(20);

/// The requests that are being worked on.
#[derive(Debug)]
pub(super) struct Once<T> {
    running: Mutex<HashMap<Key, Arc<Flight<T>>>>,
}

#[derive(Debug)]
struct Flight<T> {
    /// Outer `None`: not ended yet. Inner `None`: ended without a result to share.
    result: Mutex<Option<Option<T>>>,
    ended: Condvar,
}

/// What a request has to do.
#[derive(Debug)]
pub(super) enum Turn<'a, T: Clone> {
    /// The work; the others wait.
    Lead(Lead<'a, T>),
    /// Nothing: another had this result.
    Shared(T),
    /// Ask again: the one that led has given up.
    Again,
    /// Stop: it was cancelled while it waited.
    Cancelled,
}

/// The right to work; dropped without a result it lets another try.
#[derive(Debug)]
pub(super) struct Lead<'a, T: Clone> {
    once: &'a Once<T>,
    key: Key,
    flight: Arc<Flight<T>>,
    result: Option<T>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Once<T> {
    /// Leads, or waits for the one that does.
    pub(super) fn turn(&self, key: Key, cancelled: impl Fn() -> bool) -> Turn<'_, T> {
        let mut running = lock(&self.running);
        let Some(flight) = running.get(&key).cloned() else {
            let flight = Arc::new(Flight {
                result: Mutex::new(None),
                ended: Condvar::new(),
            });
            running.insert(key, Arc::clone(&flight));
            return Turn::Lead(Lead {
                once: self,
                key,
                flight,
                result: None,
            });
        };
        drop(running);
        let mut result = lock(&flight.result);
        loop {
            match &*result {
                Some(Some(value)) => return Turn::Shared(value.clone()),
                Some(None) => return Turn::Again,
                None if cancelled() => return Turn::Cancelled,
                None => {}
            }
            let waited = flight.ended.wait_timeout(result, TICK);
            result = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T: Clone> Lead<'_, T> {
    /// Gives the result to all who wait.
    pub(super) fn finish(mut self, value: T) {
        self.result = Some(value);
    }
}

impl<T: Clone> Drop for Lead<'_, T> {
    fn drop(&mut self) {
        lock(&self.once.running).remove(&self.key);
        *lock(&self.flight.result) = Some(self.result.take());
        self.flight.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn one_works_and_all_have_the_result() {
        let once = Once::default();
        let worked = AtomicUsize::new(0);
        let results: Vec<usize> = thread::scope(|scope| {
            let Turn::Lead(lead) = once.turn([0; 32], || false) else {
                panic!("nobody leads")
            };
            let others: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| match once.turn([0; 32], || false) {
                        Turn::Shared(value) => value,
                        // Came after the leader had ended.
                        Turn::Lead(lead) => {
                            lead.finish(7);
                            7
                        }
                        other => panic!("{other:?}"),
                    })
                })
                .collect();
            worked.fetch_add(1, Ordering::SeqCst);
            lead.finish(7);
            others
                .into_iter()
                .map(|other| other.join().unwrap())
                .collect()
        });
        assert_eq!(results, [7; 8]);
        assert_eq!(worked.into_inner(), 1);
        assert!(lock(&once.running).is_empty());
    }

    #[test]
    fn a_leader_that_gives_up_lets_another_lead() {
        let once: Once<u8> = Once::default();
        let lead = once.turn([1; 32], || false);
        assert!(matches!(once.turn([1; 32], || true), Turn::Cancelled));
        assert!(matches!(once.turn([2; 32], || false), Turn::Lead(_)));
        thread::scope(|scope| {
            let other = scope.spawn(|| once.turn([1; 32], || false));
            drop(lead);
            // It saw the end, or came later and leads itself.
            let turn = other.join().unwrap();
            assert!(matches!(turn, Turn::Again | Turn::Lead(_)), "{turn:?}");
        });
        assert!(matches!(once.turn([1; 32], || false), Turn::Lead(_)));
    }
}
