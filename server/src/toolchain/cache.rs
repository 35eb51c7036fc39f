//! Results kept on disk: one file for each, named by the hex of its key.
//!
//! A look-up touches one file and lists nothing. For trimming, each server knows the folder's
//! entries from one listing, and lists again only when another program has written there: writers
//! hold a lock on the folder and leave a modification time of their own on it, so that a time
//! that is not ours says that somebody else wrote. How recently an entry was used is its file's
//! modification time; a server learns what others used when it is about to remove an entry.
//!
//! Entries appear whole (by renaming) and belong to the user alone.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::config::CacheSettings;
use super::tree::{Sources, open_plain};

/// Names one request: SHA-256 over all that decides its result.
pub(super) type Key = [u8; 32];

/// What unfinished entries are called.
const UNFINISHED: &str = ".new-";

/// The key of a request. Lengths and the number of files are hashed too, so two requests can
/// share a key only by a collision of SHA-256.
pub(super) fn key(toolchain: &[u8; 32], tool: &str, entry: &str, sources: &Sources) -> Key {
    let mut hash = Sha256::new();
    let mut feed = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    feed(toolchain);
    feed(tool.as_bytes());
    feed(entry.as_bytes());
    feed(&(sources.iter().len() as u64).to_le_bytes());
    for (path, content) in sources.iter() {
        feed(path.as_bytes());
        feed(content.as_bytes());
    }
    hash.finalize().into()
}

/// The results in one folder, which several servers may share.
#[derive(Debug)]
pub(super) struct Cache {
    settings: CacheSettings,
    off: AtomicBool,
    index: Mutex<Index>,
}

impl Cache {
    /// A cache with these settings. The folder is made when the first result is kept.
    pub(super) fn new(settings: CacheSettings) -> Self {
        let off = AtomicBool::new(!settings.enabled);
        Self {
            settings,
            off,
            index: Mutex::default(),
        }
    }

    /// Whether results are kept.
    pub(super) fn is_on(&self) -> bool {
        !self.off.load(Ordering::Relaxed)
    }

    /// The content kept under a key, unless it is too old; using it makes it recent.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        if !self.is_on() {
            return None;
        }
        let path = self.path(key);
        let (mut file, size) = open_plain(&path).ok()?;
        if self.expired(&file.metadata().ok()?) {
            drop(file);
            self.remove_expired(key);
            return None;
        }
        // An entry that is larger than the whole cache may be was not written by us.
        if size > self.settings.max_bytes {
            return None;
        }
        let mut content = Vec::with_capacity(usize::try_from(size).ok()?);
        file.read_to_end(&mut content).ok()?;
        // In a folder that is not ours the entry stays as old as it was.
        let _ = file.set_modified(SystemTime::now());
        Some(content)
    }

    /// Keeps a content and trims the cache to its limits. A folder that cannot be written turns
    /// the cache off, with a warning.
    pub(super) fn put(&self, key: &Key, content: &[u8]) {
        if !self.is_on() || content.len() as u64 > self.settings.max_bytes {
            return;
        }
        // The folder may be removed while we work in it: once more, then.
        let done = self
            .try_put(key, content)
            .or_else(|_| self.try_put(key, content));
        if let Err(error) = done
            && !self.off.swap(true, Ordering::Relaxed)
        {
            eprintln!(
                "touchstone-server: warning: the cache is off: cannot write to {}: {error}",
                self.settings.dir.display()
            );
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.settings.dir.join(hex(key))
    }

    fn expired(&self, metadata: &fs::Metadata) -> bool {
        let age = metadata
            .modified()
            .ok()
            .and_then(|time| time.elapsed().ok());
        // A time that lies ahead is no age.
        age.is_some_and(|age| age > Duration::from_secs(self.settings.ttl))
    }

    fn try_put(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let dir = &self.settings.dir;
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        self.change(|index| {
            let mut file = tempfile::Builder::new()
                .prefix(UNFINISHED)
                .tempfile_in(dir)?;
            file.write_all(content)?;
            let used = index.later_than_all();
            file.as_file().set_modified(used)?;
            file.persist(self.path(key)).map_err(|error| error.error)?;
            index.insert(
                *key,
                Entry {
                    used,
                    size: content.len() as u64,
                },
            );
            self.trim(index);
            Ok(())
        })
    }

    /// Removes an entry that is too old, unless another server has just renewed it.
    fn remove_expired(&self, key: &Key) {
        // Where nothing can be removed, old entries are misses all the same.
        let _ = self.change(|index| {
            let path = self.path(key);
            if fs::symlink_metadata(&path).is_ok_and(|metadata| self.expired(&metadata)) {
                fs::remove_file(&path)?;
                index.remove(key);
            }
            Ok(())
        });
    }

    /// Runs a change of the folder alone among all servers, on an index that knows what the
    /// others did.
    fn change(&self, change: impl FnOnce(&mut Index) -> io::Result<()>) -> io::Result<()> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = File::open(&self.settings.dir)?;
        // Where folders cannot be locked, a clash costs an entry that lives too long.
        let _ = folder.lock();
        if index.seen.is_none() || index.seen != folder.metadata()?.modified().ok() {
            index.list(&self.settings.dir)?;
        }
        let done = change(&mut index);
        let _ = folder.set_modified(SystemTime::now());
        index.seen = folder.metadata()?.modified().ok();
        done
    }

    /// Removes what was used least recently until both limits are kept.
    fn trim(&self, index: &mut Index) {
        while index.entries.len() as u64 > self.settings.max_entries
            || index.bytes > self.settings.max_bytes
        {
            let Some(&(used, key)) = index.order.first() else {
                return;
            };
            let path = self.path(&key);
            if let Ok(metadata) = fs::symlink_metadata(&path) {
                let now = metadata.modified().unwrap_or(used);
                if now > used {
                    // It was used since we last looked.
                    index.insert(
                        key,
                        Entry {
                            used: now,
                            size: metadata.len(),
                        },
                    );
                    continue;
                }
                // What cannot be removed (a folder, say) is not ours to count.
                let _ = fs::remove_file(&path);
            }
            index.remove(&key);
        }
    }
}

/// What one server knows of the folder.
#[derive(Debug, Default)]
struct Index {
    entries: HashMap<Key, Entry>,
    /// The entries by the time of their last use, as far as this server knows: never later than
    /// the file says.
    order: BTreeSet<(SystemTime, Key)>,
    bytes: u64,
    /// The folder's modification time when this was true; `None` before the first listing.
    seen: Option<SystemTime>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    used: SystemTime,
    size: u64,
}

impl Index {
    /// Reads the folder. Nobody else writes meanwhile, so unfinished entries were left behind.
    fn list(&mut self, dir: &Path) -> io::Result<()> {
        let mut known = std::mem::take(&mut self.entries);
        self.order.clear();
        self.bytes = 0;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(UNFINISHED) {
                let _ = fs::remove_file(entry.path());
            }
            let Some(key) = unhex(&name) else { continue };
            let old = known.remove(&key);
            let current = || {
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some(Entry {
                    used: metadata.modified().ok()?,
                    size: metadata.len(),
                })
            };
            if let Some(entry) = old.or_else(current) {
                self.insert(key, entry);
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        self.remove(&key);
        self.order.insert((entry.used, key));
        self.bytes += entry.size;
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&(entry.used, *key));
            self.bytes -= entry.size;
        }
    }

    /// Now, or a moment after the latest use that is known: two entries written in one tick of
    /// the clock keep their order.
    fn later_than_all(&self) -> SystemTime {
        let now = SystemTime::now();
        match self.order.last() {
            Some((last, _)) if *last >= now && *last - Duration::from_secs(1) < now => {
                *last + Duration::from_nanos(1)
            }
            _ => now,
        }
    }
}

fn hex(key: &Key) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(name: &str) -> Option<Key> {
    let digits = name.as_bytes();
    if digits.len() != 64
        || !digits
            .iter()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
    {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(name.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn settings(dir: &Path) -> CacheSettings {
        CacheSettings {
            dir: dir.join("cache"),
            ..CacheSettings::default()
        }
    }

    fn numbered(number: u64) -> Key {
        Sha256::digest(number.to_le_bytes()).into()
    }

    fn age(cache: &Cache, key: &Key, seconds: u64) {
        let file = File::open(cache.path(key)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .unwrap();
    }

    fn names(cache: &Cache) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&cache.settings.dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn names_of(keys: &[Key]) -> Vec<String> {
        let mut names: Vec<_> = keys.iter().map(hex).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_put_is_there_for_this_server_and_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(settings(dir.path()));
        let key = numbered(1);
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"one");
        assert_eq!(cache.get(&key).unwrap(), b"one");
        assert_eq!(cache.get(&numbered(2)), None);
        assert_eq!(Cache::new(settings(dir.path())).get(&key).unwrap(), b"one");
        assert_eq!(names(&cache), names_of(&[key]));
    }

    #[test]
    fn an_entry_older_than_the_ttl_is_a_miss_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(CacheSettings {
            ttl: 100,
            ..settings(dir.path())
        });
        let (young, old) = (numbered(1), numbered(2));
        cache.put(&young, b"young");
        cache.put(&old, b"old");
        age(&cache, &young, 90);
        age(&cache, &old, 101);
        assert_eq!(cache.get(&old), None);
        assert_eq!(cache.get(&young).unwrap(), b"young");
        assert_eq!(names(&cache), names_of(&[young]));
    }

    #[test]
    fn a_hit_makes_an_entry_young_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(CacheSettings {
            ttl: 100,
            ..settings(dir.path())
        });
        cache.put(&numbered(1), b"1");
        age(&cache, &numbered(1), 90);
        assert!(cache.get(&numbered(1)).is_some());
        let metadata = fs::metadata(cache.path(&numbered(1))).unwrap();
        assert!(
            metadata
                .modified()
                .unwrap()
                .elapsed()
                .unwrap_or_default()
                .as_secs()
                < 80
        );
    }

    #[test]
    fn the_least_recently_used_entry_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(CacheSettings {
            max_entries: 3,
            ..settings(dir.path())
        });
        let key: Vec<Key> = (0..6).map(numbered).collect();
        for key in &key[0..3] {
            cache.put(key, b"x");
        }
        assert!(cache.get(&key[0]).is_some());
        cache.put(&key[3], b"x");
        assert_eq!(names(&cache), names_of(&[key[0], key[2], key[3]]));
        // Another server uses 2, which this one knows as the oldest.
        assert!(Cache::new(settings(dir.path())).get(&key[2]).is_some());
        cache.put(&key[4], b"x");
        assert_eq!(names(&cache), names_of(&[key[2], key[3], key[4]]));
        // A server that has just started knows the order too.
        let next = Cache::new(CacheSettings {
            max_entries: 3,
            ..settings(dir.path())
        });
        next.put(&key[5], b"x");
        assert_eq!(names(&cache), names_of(&[key[2], key[4], key[5]]));
    }

    #[test]
    fn all_entries_together_keep_to_max_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(CacheSettings {
            max_bytes: 10,
            ..settings(dir.path())
        });
        cache.put(&numbered(1), b"1234");
        cache.put(&numbered(2), b"1234");
        cache.put(&numbered(3), b"12345");
        assert_eq!(names(&cache), names_of(&[numbered(2), numbered(3)]));
        cache.put(&numbered(4), b"12345678901");
        assert_eq!(
            names(&cache),
            names_of(&[numbered(2), numbered(3)]),
            "too large to keep"
        );
        cache.put(&numbered(5), b"1234567890");
        assert_eq!(names(&cache), names_of(&[numbered(5)]));
    }

    #[test]
    fn limits_of_nothing_keep_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let none = Cache::new(CacheSettings {
            max_entries: 0,
            ..settings(dir.path())
        });
        none.put(&numbered(1), b"x");
        assert!(names(&none).is_empty());
        let cache = Cache::new(CacheSettings {
            ttl: 0,
            ..settings(dir.path())
        });
        cache.put(&numbered(1), b"x");
        age(&cache, &numbered(1), 1);
        assert_eq!(cache.get(&numbered(1)), None);
        let off = Cache::new(CacheSettings {
            enabled: false,
            ..settings(dir.path())
        });
        off.put(&numbered(2), b"x");
        assert_eq!(off.get(&numbered(2)), None);
        assert!(names(&cache).is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_written_turns_the_cache_off() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let blocked = dir.path().join("file/cache");
        let cache = Cache::new(CacheSettings {
            dir: blocked,
            ..CacheSettings::default()
        });
        cache.put(&numbered(1), b"x");
        assert!(!cache.is_on());
        assert_eq!(cache.get(&numbered(1)), None);
    }

    #[test]
    fn a_folder_removed_meanwhile_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(settings(dir.path()));
        cache.put(&numbered(1), b"x");
        fs::remove_dir_all(&cache.settings.dir).unwrap();
        assert_eq!(cache.get(&numbered(1)), None);
        cache.put(&numbered(2), b"x");
        assert!(cache.is_on());
        assert_eq!(names(&cache), names_of(&[numbered(2)]));
    }

    #[test]
    fn foreign_files_are_left_alone_and_unfinished_entries_swept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(CacheSettings {
            max_entries: 1,
            ..settings(dir.path())
        });
        fs::create_dir(&cache.settings.dir).unwrap();
        let upper = hex(&numbered(9)).to_uppercase();
        for name in ["README", ".new-left", &upper] {
            fs::write(cache.settings.dir.join(name), "x").unwrap();
        }
        fs::create_dir(cache.path(&numbered(8))).unwrap();
        assert_eq!(cache.get(&numbered(8)), None, "a folder is no entry");
        cache.put(&numbered(1), b"x");
        cache.put(&numbered(2), b"x");
        let mut expected = names_of(&[numbered(2), numbered(8)]);
        expected.extend(["README".to_owned(), upper]);
        expected.sort();
        assert_eq!(names(&cache), expected);
    }

    #[test]
    fn a_symlink_or_a_pipe_in_the_place_of_an_entry_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(settings(dir.path()));
        cache.put(&numbered(1), b"x");
        std::os::unix::fs::symlink(cache.path(&numbered(1)), cache.path(&numbered(2))).unwrap();
        assert_eq!(cache.get(&numbered(2)), None);
        let fifo = cache.path(&numbered(3));
        assert!(
            std::process::Command::new("mkfifo")
                .arg(fifo)
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(
            cache.get(&numbered(3)),
            None,
            "and nobody waits for a writer"
        );
        cache.put(&numbered(2), b"y");
        assert_eq!(cache.get(&numbered(2)).unwrap(), b"y");
        assert_eq!(
            cache.get(&numbered(1)).unwrap(),
            b"x",
            "the link was replaced, not followed"
        );
    }

    #[test]
    fn a_write_lists_the_folder_only_when_another_program_wrote_there() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(settings(dir.path()));
        cache.put(&numbered(1), b"x");
        let ghost = numbered(99);
        // Only a listing would find out that this entry has no file.
        let unlisted = |cache: &Cache| cache.index.lock().unwrap().entries.contains_key(&ghost);
        let haunt = |cache: &Cache| {
            let entry = Entry {
                used: SystemTime::now(),
                size: 1,
            };
            cache.index.lock().unwrap().insert(ghost, entry);
        };
        haunt(&cache);
        cache.put(&numbered(2), b"x");
        cache.get(&numbered(1)).unwrap();
        cache.put(&numbered(3), b"x");
        assert!(unlisted(&cache));
        Cache::new(settings(dir.path())).put(&numbered(4), b"x");
        cache.put(&numbered(5), b"x");
        assert!(!unlisted(&cache));
        assert_eq!(cache.index.lock().unwrap().entries.len(), 5);
        haunt(&cache);
        fs::remove_file(cache.path(&numbered(4))).unwrap();
        cache.put(&numbered(6), b"x");
        assert!(!unlisted(&cache));
    }

    #[test]
    fn several_servers_on_one_folder_keep_to_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        let settings = CacheSettings {
            max_entries: 8,
            ..settings(dir.path())
        };
        std::thread::scope(|scope| {
            for server in 0..4_u64 {
                let settings = settings.clone();
                scope.spawn(move || {
                    let cache = Cache::new(settings);
                    for number in 0..50 {
                        let key = numbered(server * 1000 + number);
                        cache.put(&key, &number.to_le_bytes());
                        if let Some(content) = cache.get(&key) {
                            assert_eq!(content, number.to_le_bytes());
                        }
                        cache.get(&numbered(number % 3 * 1000));
                    }
                    assert!(cache.is_on());
                });
            }
        });
        assert_eq!(names(&Cache::new(settings)).len(), 8);
    }

    /// The entries by age, oldest first: the cache as one would write it without files.
    #[derive(Debug, Default)]
    struct Model(Vec<(u64, usize)>);

    impl Model {
        fn get(&mut self, number: u64) -> Option<usize> {
            let at = self.0.iter().position(|entry| entry.0 == number)?;
            let entry = self.0.remove(at);
            self.0.push(entry);
            Some(entry.1)
        }

        fn put(&mut self, number: u64, size: usize, max_entries: usize, max_bytes: usize) {
            if size > max_bytes {
                return;
            }
            self.0.retain(|entry| entry.0 != number);
            self.0.push((number, size));
            while self.0.len() > max_entries
                || self.0.iter().map(|entry| entry.1).sum::<usize>() > max_bytes
            {
                self.0.remove(0);
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Get(u64),
        Put(u64, usize),
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..6_u64).prop_map(Step::Get),
            4 => (0..6_u64, 0..30_usize).prop_map(|(number, size)| Step::Put(number, size)),
            1 => Just(Step::Restart),
        ]
    }

    fn file_set() -> impl Strategy<Value = BTreeMap<String, String>> {
        proptest::collection::btree_map("[ab]{1,3}", "[ab]{0,3}", 1..4)
    }

    fn sources(files: &BTreeMap<String, String>) -> Sources {
        let files = json!(files);
        Sources::from_argument(files.as_object().unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_holds_what_a_list_by_age_would_hold(
            steps in proptest::collection::vec(step(), 1..40),
            max_entries in 0..4_usize,
            max_bytes in 0..60_usize,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let settings = CacheSettings {
                max_entries: max_entries as u64,
                max_bytes: max_bytes as u64,
                ..settings(dir.path())
            };
            let mut cache = Cache::new(settings.clone());
            let mut model = Model::default();
            for step in steps {
                match step {
                    Step::Get(number) => {
                        let size = cache.get(&numbered(number)).map(|content| content.len());
                        prop_assert_eq!(size, model.get(number));
                    }
                    Step::Put(number, size) => {
                        cache.put(&numbered(number), &vec![b'x'; size]);
                        model.put(number, size, max_entries, max_bytes);
                    }
                    Step::Restart => cache = Cache::new(settings.clone()),
                }
            }
            for number in 0..6 {
                let size = cache.get(&numbered(number)).map(|content| content.len());
                prop_assert_eq!(size, model.get(number));
            }
        }

        #[test]
        fn different_requests_have_different_keys(
            one in (any::<bool>(), "[ab]{0,3}", "[ab]{0,3}", file_set()),
            two in (any::<bool>(), "[ab]{0,3}", "[ab]{0,3}", file_set()),
        ) {
            let key = |(other, tool, entry, files): &(bool, String, String, _)| {
                key(&[u8::from(*other); 32], tool, entry, &sources(files))
            };
            prop_assert_eq!(one == two, key(&one) == key(&two));
        }
    }

    #[test]
    fn the_order_and_spelling_of_paths_do_not_change_a_key() {
        let key = |files: Value| {
            let sources = Sources::from_argument(files.as_object().unwrap()).unwrap();
            key(&[0; 32], "compile", "a.B.c", &sources)
        };
        assert_eq!(
            key(json!({"a": "1", "b": "2"})),
            key(json!({"./b": "2", "a": "1"}))
        );
        assert_ne!(
            key(json!({"a": "1", "b": "2"})),
            key(json!({"a": "2", "b": "1"}))
        );
    }
}
