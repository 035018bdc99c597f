//! Opening call trees, and the cache that all questions share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::callees::Callees;
use super::descent::Tree;
use super::node::{self, Entry};
use super::page::Page;
use super::summary::Summary;
use super::{Columns, Directory, Error, Kind, PAGE, TAG, ThreadCalls};
use retro_recording::NamedFile;

use crate::frames::fields::{BadField, Fields};
use crate::frames::generations::Generations;
use crate::frames::{FrameError, FrameFile};

/// Bytes of the cache, if nobody says otherwise: some hundreds of pages.
pub const DEFAULT_CACHE: usize = 4 << 20;

/// The call trees of a volume, for any number of threads to ask at once.
#[derive(Debug)]
pub struct CallTree {
    directory: Directory,
    store: Arc<Store>,
}

impl CallTree {
    /// Opens the part of a file that was complete when it had a length.
    pub fn open(place: &NamedFile, committed: u64) -> Result<CallTree, Error> {
        CallTree::open_with_cache(place, committed, DEFAULT_CACHE)
    }

    /// Opens a file, with about so many bytes of it to be kept in memory.
    pub fn open_with_cache(
        place: &NamedFile,
        committed: u64,
        cache: usize,
    ) -> Result<CallTree, Error> {
        let file = FrameFile::open(place, TAG, committed)?;
        let directory = Directory::load(&file)?;
        Ok(CallTree {
            directory,
            store: Arc::new(Store { file, cache: Mutex::new(Generations::new(cache)) }),
        })
    }

    /// How many windows are complete.
    pub fn windows(&self) -> u64 {
        self.directory.windows
    }

    /// Which columns there are.
    pub fn columns(&self) -> Columns {
        self.directory.columns
    }

    /// The threads that called or returned, in ascending order.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.directory.threads()
    }

    /// The calls of a thread, if there are any.
    pub fn thread(&self, thread: u32) -> Result<Option<ThreadCalls>, Error> {
        let Some(position) = self.directory.head(thread) else { return Ok(None) };
        let tree = self.store.tree(position)?;
        Ok(Some(ThreadCalls::new(self.store.clone(), tree)))
    }
}

/// The file and what of it is in memory.
#[derive(Debug)]
pub(super) struct Store {
    file: FrameFile,
    cache: Mutex<Generations<u64, Cached>>,
}

#[derive(Clone, Debug)]
enum Cached {
    Tree(Arc<Tree>),
    Page(Arc<Page>),
    Node(Arc<[Entry]>),
    Callees(Arc<Callees>),
}

impl Store {
    pub(super) fn file(&self) -> &FrameFile {
        &self.file
    }

    pub(super) fn page(&self, position: u64, start: u64) -> Result<Arc<Page>, FrameError> {
        if let Some(Cached::Page(page)) = self.cached(position) {
            return Ok(page);
        }
        let page =
            Arc::new(self.decode(position, Kind::Page, |fields| Page::decode(fields, start))?);
        let blocks = page.times.len() * (size_of::<Summary>() + size_of::<u64>());
        self.keep(
            position,
            Cached::Page(page.clone()),
            PAGE / 8 + blocks + size_of_val(&page.marks[..]),
        );
        Ok(page)
    }

    pub(super) fn node(&self, position: u64, level: usize) -> Result<Arc<[Entry]>, FrameError> {
        if let Some(Cached::Node(node)) = self.cached(position) {
            return Ok(node);
        }
        let node: Arc<[Entry]> =
            self.decode(position, Kind::Node, |fields| node::decode(fields, level))?.into();
        self.keep(position, Cached::Node(node.clone()), size_of_val(&node[..]));
        Ok(node)
    }

    pub(super) fn callees(&self, position: u64) -> Result<Arc<Callees>, FrameError> {
        if let Some(Cached::Callees(callees)) = self.cached(position) {
            return Ok(callees);
        }
        let callees = Arc::new(self.decode(position, Kind::Callees, Callees::decode)?);
        self.keep(position, Cached::Callees(callees.clone()), callees.size());
        Ok(callees)
    }

    fn tree(&self, position: u64) -> Result<Arc<Tree>, FrameError> {
        if let Some(Cached::Tree(tree)) = self.cached(position) {
            return Ok(tree);
        }
        let tree = Arc::new(Tree::read(&self.file, position)?);
        self.keep(position, Cached::Tree(tree.clone()), tree.size());
        Ok(tree)
    }

    fn decode<T>(
        &self,
        position: u64,
        kind: Kind,
        decode: impl FnOnce(&mut Fields<'_>) -> Result<T, BadField>,
    ) -> Result<T, FrameError> {
        let bytes = self.file.read_kind(position, kind as u8)?;
        decode(&mut Fields::new(&bytes)).map_err(|reason| self.file.damaged(position, reason))
    }

    fn cached(&self, position: u64) -> Option<Cached> {
        self.lock().get(position).cloned()
    }

    fn keep(&self, position: u64, what: Cached, bytes: usize) {
        self.lock().insert(position, what, bytes);
    }

    /// The cache holds nothing that a panic elsewhere could leave half done.
    fn lock(&self) -> MutexGuard<'_, Generations<u64, Cached>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
