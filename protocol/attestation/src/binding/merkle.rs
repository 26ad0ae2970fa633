//! The tree of the handshakes that share a quote. Its shape is that of RFC 9162 §2.1: a left subtree is
//! always complete, and a node without a sibling moves up unchanged; so position and size of the tree fix the
//! length of every path.

use aws_lc_rs::digest::{Context, SHA256};

use super::{Leaf, finish};
use crate::limits::{LEAVES_MAX, PATH_DEPTH_MAX};

const NODE_TAG: u8 = 0x01;

type Node = [u8; 32];

/// A batch with no leaves, or more than one quote may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quote serves 1 to {LEAVES_MAX} handshakes, not {0}")]
pub struct BatchSize(usize);

/// A path that no tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("a tree has 1 to {LEAVES_MAX} leaves")]
    Leaves,
    #[error("the index lies beyond the last leaf")]
    Index,
    #[error("the path is longer or shorter than the way from this leaf to the root")]
    Length,
}

/// The handshakes that one quote proves. Built by the prover; never spans pods or static keys.
#[derive(Debug, Clone)]
pub struct Tree {
    /// From the leaves to the root. Never empty, and neither is any level.
    levels: Vec<Vec<Node>>,
    root: Node,
}

impl Tree {
    /// # Errors
    /// [`BatchSize`] when there are no leaves or more than [`LEAVES_MAX`].
    pub fn new(leaves: &[Leaf]) -> Result<Self, BatchSize> {
        let counted = u32::try_from(leaves.len()).ok().filter(|count| (1..=LEAVES_MAX).contains(count));
        if counted.is_none() {
            return Err(BatchSize(leaves.len()));
        }
        let mut level: Vec<Node> = leaves.iter().map(|leaf| *leaf.as_bytes()).collect();
        let mut levels = Vec::with_capacity(PATH_DEPTH_MAX);
        let root = loop {
            if let [root] = level.as_slice() {
                break *root;
            }
            let above = level.chunks(2).map(|pair| match pair {
                [left, right] => node(left, right),
                odd => odd.first().copied().unwrap_or_default(),
            });
            let above = above.collect();
            levels.push(std::mem::replace(&mut level, above));
        };
        levels.push(level);
        Ok(Self { levels, root })
    }

    /// A tree of one leaf: the ordinary handshake.
    #[must_use]
    pub fn single(leaf: Leaf) -> Self {
        Self { levels: vec![vec![*leaf.as_bytes()]], root: *leaf.as_bytes() }
    }

    #[must_use]
    pub fn leaves(&self) -> u32 {
        self.levels.first().and_then(|leaves| u32::try_from(leaves.len()).ok()).unwrap_or_default()
    }

    #[must_use]
    pub const fn root(&self) -> &[u8; 32] {
        &self.root
    }

    /// The way from leaf `index` to the root, or `None` beyond the last leaf.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<MerklePath> {
        if index >= self.leaves() {
            return None;
        }
        let mut position = usize::try_from(index).ok()?;
        let mut siblings = Vec::with_capacity(PATH_DEPTH_MAX);
        for level in &self.levels {
            // The root, and a node that moves up unchanged, have no sibling.
            siblings.extend(level.get(position ^ 1).copied());
            position >>= 1;
        }
        Some(MerklePath { leaves: self.leaves(), index, siblings })
    }
}

/// The way from one leaf to the root. Its length is checked when it is made, so a value always fits its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerklePath {
    leaves: u32,
    index: u32,
    siblings: Vec<Node>,
}

impl MerklePath {
    /// # Errors
    /// [`InvalidPath`] when no tree of `leaves` leaves has this path at `index`.
    pub fn new(leaves: u32, index: u32, siblings: Vec<Node>) -> Result<Self, InvalidPath> {
        if siblings.len() != Self::length(leaves, index)? {
            return Err(InvalidPath::Length);
        }
        Ok(Self { leaves, index, siblings })
    }

    /// The number of nodes from leaf `index` to the root of a tree of `leaves` leaves.
    ///
    /// # Errors
    /// [`InvalidPath`] when there is no such leaf.
    pub fn length(leaves: u32, index: u32) -> Result<usize, InvalidPath> {
        if !(1..=LEAVES_MAX).contains(&leaves) {
            return Err(InvalidPath::Leaves);
        }
        let mut last = leaves.checked_sub(1).ok_or(InvalidPath::Leaves)?;
        if index > last {
            return Err(InvalidPath::Index);
        }
        let mut position = index;
        let mut length: usize = 0;
        while last > 0 {
            if position < last || position & 1 == 1 {
                length = length.saturating_add(1);
            }
            position >>= 1;
            last >>= 1;
        }
        Ok(length)
    }

    #[must_use]
    pub const fn leaves(&self) -> u32 {
        self.leaves
    }

    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    #[must_use]
    pub fn siblings(&self) -> &[[u8; 32]] {
        &self.siblings
    }

    /// The root of the tree that has `leaf` at this path.
    #[must_use]
    pub fn root(&self, leaf: &Leaf) -> [u8; 32] {
        let mut position = self.index;
        let mut last = self.leaves.saturating_sub(1);
        let mut siblings = self.siblings.iter();
        let mut reached = *leaf.as_bytes();
        while last > 0 {
            if position & 1 == 1 {
                if let Some(left) = siblings.next() {
                    reached = node(left, &reached);
                }
            } else if position < last
                && let Some(right) = siblings.next()
            {
                reached = node(&reached, right);
            }
            position >>= 1;
            last >>= 1;
        }
        reached
    }
}

fn node(left: &Node, right: &Node) -> Node {
    let mut hash = Context::new(&SHA256);
    hash.update(&[NODE_TAG]);
    hash.update(left);
    hash.update(right);
    finish(hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Purpose, Role};
    use super::*;

    fn leaves(count: usize) -> Vec<Leaf> {
        (0..count)
            .map(|index| {
                let mut h = [0; 32];
                h[..8].copy_from_slice(&index.to_be_bytes());
                Leaf::new(Purpose::Handshake, Role::Initiator, &h, &[0; 32], &[0; 32], &[0; 32])
            })
            .collect()
    }

    /// RFC 9162 §2.1.1, word for word: an independent way to the same root.
    fn reference_root(leaves: &[Leaf]) -> Node {
        match leaves {
            [one] => *one.as_bytes(),
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node(&reference_root(&leaves[..split]), &reference_root(&leaves[split..]))
            }
        }
    }

    #[test]
    fn every_leaf_of_every_shape_reaches_the_root() {
        for count in (1..=70).chain([127, 128, 129, 1000, 4095, 4096]) {
            let leaves = leaves(count);
            let tree = Tree::new(&leaves).unwrap();
            assert_eq!(*tree.root(), reference_root(&leaves), "{count}");
            assert_eq!(tree.leaves() as usize, count);
            let step = if count > 200 { 97 } else { 1 };
            for index in (0..count as u32).step_by(step).chain([count as u32 - 1]) {
                let path = tree.path(index).unwrap();
                assert!(path.siblings().len() <= PATH_DEPTH_MAX);
                assert_eq!(path.root(&leaves[index as usize]), *tree.root(), "{index} of {count}");
                let again = MerklePath::new(path.leaves(), path.index(), path.siblings().to_vec());
                assert_eq!(again, Ok(path));
            }
            assert_eq!(tree.path(count as u32), None);
        }
    }

    #[test]
    fn a_single_leaf_is_its_own_root() {
        let leaf = leaves(1)[0];
        let tree = Tree::single(leaf);
        assert_eq!(tree.root(), leaf.as_bytes());
        assert_eq!(tree.root(), Tree::new(&[leaf]).unwrap().root());
        assert_eq!(tree.path(0), Some(MerklePath::new(1, 0, vec![]).unwrap()));
    }

    #[test]
    fn paths_are_strict() {
        assert_eq!(MerklePath::new(0, 0, vec![]), Err(InvalidPath::Leaves));
        assert_eq!(MerklePath::new(4097, 0, vec![[0; 32]; 13]), Err(InvalidPath::Leaves));
        assert_eq!(MerklePath::new(u32::MAX, 0, vec![]), Err(InvalidPath::Leaves));
        assert_eq!(MerklePath::new(4, 4, vec![[0; 32]; 2]), Err(InvalidPath::Index));
        assert_eq!(MerklePath::new(4, 0, vec![[0; 32]; 1]), Err(InvalidPath::Length));
        assert_eq!(MerklePath::new(4, 0, vec![[0; 32]; 3]), Err(InvalidPath::Length));
        assert_eq!(MerklePath::new(1, 0, vec![[0; 32]]), Err(InvalidPath::Length));
        // In a tree of three the last leaf is one step below the root, the others two.
        assert!(MerklePath::new(3, 2, vec![[0; 32]; 1]).is_ok());
        assert_eq!(MerklePath::new(3, 2, vec![[0; 32]; 2]), Err(InvalidPath::Length));
        assert!(MerklePath::new(3, 1, vec![[0; 32]; 2]).is_ok());
    }

    #[test]
    fn batches_are_bounded() {
        assert_eq!(Tree::new(&[]).unwrap_err(), BatchSize(0));
        assert!(Tree::new(&leaves(4097)).is_err());
    }

    #[test]
    fn another_leaf_index_or_sibling_reaches_another_root() {
        let leaves = leaves(5);
        let tree = Tree::new(&leaves).unwrap();
        let path = tree.path(1).unwrap();
        assert_ne!(path.root(&leaves[0]), *tree.root());
        let moved = MerklePath::new(5, 0, path.siblings().to_vec()).unwrap();
        assert_ne!(moved.root(&leaves[1]), *tree.root());
        for position in 0..path.siblings().len() {
            let mut siblings = path.siblings().to_vec();
            siblings[position][31] ^= 1;
            let bent = MerklePath::new(5, 1, siblings).unwrap();
            assert_ne!(bent.root(&leaves[1]), *tree.root());
        }
    }

    proptest! {
        /// The argument of PROTOCOL.md §11: with REPORT_DATA naming root and number of leaves, a path leads there from the
        /// leaf that stands at its index and from nothing else.
        #[test]
        fn a_path_shows_one_leaf_at_one_place(
            count in 1_usize..300,
            at in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
            bent in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let leaves = leaves(count);
            let tree = Tree::new(&leaves).unwrap();
            let (at, other) = (at.index(count), other.index(count));
            let path = tree.path(at as u32).unwrap();
            prop_assert_eq!(path.root(&leaves[other]) == *tree.root(), at == other);
            // The same nodes at another place of the same tree, where they fit at all.
            if let Ok(moved) = MerklePath::new(count as u32, other as u32, path.siblings().to_vec()) {
                prop_assert_eq!(moved.root(&leaves[at]) == *tree.root(), at == other);
            }
            // An inner node is no leaf: the tags keep the two apart.
            if let [left, .., _] | [left] = path.siblings() {
                let inner = Leaf(node(leaves[at].as_bytes(), left));
                prop_assert_ne!(path.root(&inner), *tree.root());
                let mut siblings = path.siblings().to_vec();
                let length = siblings.len() * 32;
                let byte = bent.index(length);
                siblings[byte / 32][byte % 32] ^= 1 << bit;
                let bent = MerklePath::new(count as u32, at as u32, siblings).unwrap();
                prop_assert_ne!(bent.root(&leaves[at]), *tree.root());
            }
        }
    }
}
