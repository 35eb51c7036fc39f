//! Values made from a JSON Schema, and lines made from the grammar of the wire. What is made
//! depends on the seed alone.

pub mod example;
pub mod schema;
pub mod wire;

use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The most values that a strategy may throw away before it is given up.
const REJECTS: u32 = 1_000;

/// A source of values: the same seed and name give the same ones.
pub fn runner(seed: u64, name: &str) -> TestRunner {
    // FNV-1a, so that each name has values of its own.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&hash.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_local_rejects: REJECTS,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The simplest value found for which `fails` still holds, after at most `most` questions; `None`
/// as an answer ends the search. The value that the tree begins with is taken to fail.
pub fn shrink<T: ValueTree>(
    tree: &mut T,
    most: usize,
    mut fails: impl FnMut(&T::Value) -> Option<bool>,
) -> T::Value {
    let mut simplest = tree.current();
    let mut moved = tree.simplify();
    for _ in 0..most {
        if !moved {
            break;
        }
        let candidate = tree.current();
        moved = match fails(&candidate) {
            Some(true) => {
                simplest = candidate;
                tree.simplify()
            }
            Some(false) => tree.complicate(),
            None => break,
        };
    }
    simplest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_same_seed_gives_the_same_values_and_another_one_others() {
        let values = |seed, name: &str| {
            let mut runner = runner(seed, name);
            vec(any::<u64>(), 4)
                .new_tree(&mut runner)
                .unwrap()
                .current()
        };
        assert_eq!(values(7, "a"), values(7, "a"));
        assert_ne!(values(7, "a"), values(8, "a"));
        assert_ne!(values(7, "a"), values(7, "b"));
    }

    #[test]
    fn shrinking_finds_the_smallest_and_ends() {
        let mut runner = runner(1, "shrink");
        let strategy = vec(0..1000_u32, 1..50);
        let mut tree = loop {
            let tree = strategy.new_tree(&mut runner).unwrap();
            if tree.current().iter().any(|n| *n >= 100) {
                break tree;
            }
        };
        let smallest = shrink(&mut tree, 10_000, |value| {
            Some(value.iter().any(|n| *n >= 100))
        });
        assert_eq!(smallest, [100]);
    }

    #[test]
    fn shrinking_keeps_to_its_bound() {
        let mut runner = runner(2, "bound");
        let mut tree = vec(any::<u64>(), 200).new_tree(&mut runner).unwrap();
        let mut asked = 0;
        let mut count = |_: &Vec<u64>| {
            asked += 1;
            Some(true)
        };
        shrink(&mut tree, 5, &mut count);
        assert_eq!(asked, 5);
        let mut tree = vec(any::<u64>(), 200).new_tree(&mut runner).unwrap();
        let before = tree.current();
        assert_eq!(shrink(&mut tree, 5, |_| None), before);
    }
}
