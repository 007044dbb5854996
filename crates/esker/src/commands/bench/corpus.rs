//! A corpus of signed events that looks like what relays hold, the same for the same seed on every machine.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context as _;
use esker_nostr::{Event, EventFields as _, EventId, Keys, PublicKey, kind};

use super::{Source, random::Random};
use crate::{commands::Context, exit::Exit, lines::Output, progress};

/// Arguments of `bench corpus`.
#[derive(Debug, clap::Args)]
pub(super) struct CorpusArgs {
    /// Where to; .gz and .zst are compressed, `-` is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// How many events
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,
    /// The same seed gives the same corpus
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(super) fn run(context: &Context, args: &CorpusArgs) -> anyhow::Result<Exit> {
    let finished = write(context, &args.file, args.events, args.seed)?;
    Ok(if finished { Exit::Done } else { Exit::Interrupted })
}

/// The corpus that a measurement works on: the user's file, or a generated one in a temporary folder, which
/// goes when what is returned beside the path is dropped.
pub(super) fn provide(
    context: &Context,
    source: &Source,
) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(file) = &source.corpus {
        return Ok((file.clone(), None));
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let file = folder.path().join("corpus.jsonl");
    write(context, &file, source.events, source.seed)?;
    Ok((file, Some(folder)))
}

/// Writes a corpus; whether it came to its end.
fn write(context: &Context, file: &Path, events: u64, seed: u64) -> anyhow::Result<bool> {
    let failed = || format!("cannot write {}", file.display());
    let bar = progress::count(Some(events), context.json);
    bar.set_message("making the corpus");
    let mut output = Output::create(file).with_context(failed)?;
    let mut world = World::new(seed, events);
    let mut next = 0;
    while next < events && !context.interrupt.is_set() {
        let end = (next + CHUNK).min(events);
        let chunk = world.generate(next, end);
        for event in &chunk {
            output.line(event.json()).with_context(failed)?;
        }
        world.remember(&chunk);
        next = end;
        bar.set_position(next);
    }
    output.finish().with_context(failed)?;
    bar.finish_and_clear();
    Ok(next == events)
}

/// Events of one chunk are made on all cores: they refer to those of earlier chunks only.
const CHUNK: u64 = 2_048;
/// When the corpus begins, and how many seconds pass from one event to the next.
const BEGIN: i64 = 1_700_000_000;
const STEP: i64 = 2;

/// A note that later events may refer to.
#[derive(Clone, Copy)]
struct Note {
    id: EventId,
    author: usize,
}

/// Who writes, and what was written.
struct World {
    seed: u64,
    people: Vec<Keys>,
    notes: Vec<Note>,
}

impl World {
    fn new(seed: u64, events: u64) -> Self {
        let people = usize::try_from(events / 25)
            .unwrap_or(usize::MAX)
            .clamp(400, 50_000);
        let people = (0..people as u64)
            .map(|person| Keys::from_seed(seed.rotate_left(32) ^ person))
            .collect();
        Self {
            seed,
            people,
            notes: Vec::new(),
        }
    }

    /// Events `from` to `to`, on all cores.
    fn generate(&self, from: u64, to: u64) -> Vec<Event> {
        let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
        let share = (to - from).div_ceil(threads).max(1);
        thread::scope(|scope| {
            let parts: Vec<_> = (from..to)
                .step_by(usize::try_from(share).expect("a chunk is small"))
                .map(|start| {
                    scope.spawn(move || {
                        (start..(start + share).min(to))
                            .map(|index| Author::at(self, index).event())
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            parts
                .into_iter()
                .flat_map(|part| part.join().expect("making an event does not panic"))
                .collect()
        })
    }

    fn remember(&mut self, chunk: &[Event]) {
        let authors: std::collections::HashMap<PublicKey, usize> = self
            .people
            .iter()
            .enumerate()
            .map(|(person, keys)| (keys.public(), person))
            .collect();
        let notes = chunk.iter().filter(|event| event.kind() == kind::TEXT_NOTE);
        self.notes.extend(notes.map(|event| Note {
            id: event.id(),
            author: authors[&event.pubkey()],
        }));
    }
}

type Tags = Vec<Vec<String>>;

/// Makes one event.
struct Author<'a> {
    world: &'a World,
    random: Random,
    person: usize,
    created_at: i64,
}

/// Kinds in per mille of all events; what they add up to is checked by a test.
const KINDS: [(u16, usize); 15] = [
    (1, 375),
    (7, 270),
    (9735, 70),
    (1059, 60),
    (6, 55),
    (0, 30),
    (3, 30),
    (4, 28),
    (1111, 20),
    (10_002, 16),
    (30_078, 14),
    (5, 10),
    (30_000, 8),
    (30_023, 8),
    (1984, 6),
];

impl<'a> Author<'a> {
    fn at(world: &'a World, index: u64) -> Self {
        let mut random = Random::at(world.seed, index);
        let person = random.zipf(world.people.len());
        let jitter = i64::try_from(random.below(3)).expect("a small number");
        let created_at = BEGIN + i64::try_from(index).unwrap_or(i64::MAX / 4) * STEP + jitter;
        Self {
            world,
            random,
            person,
            created_at,
        }
    }

    fn event(mut self) -> Event {
        let kind = self.kind();
        let (tags, content) = self.body(kind);
        self.world.people[self.person].sign(kind, self.created_at, &tags, &content)
    }

    fn kind(&mut self) -> u16 {
        let mut left = self.random.below(1_000);
        for (kind, share) in KINDS {
            if left < share {
                return kind;
            }
            left -= share;
        }
        kind::TEXT_NOTE
    }

    fn body(&mut self, kind: u16) -> (Tags, String) {
        match kind {
            0 => (vec![], self.profile()),
            3 => (self.contacts(), String::new()),
            4 => (
                vec![self.p(None)],
                format!("{}?iv=AAAAAAAAAAAAAAAAAAAAAA==", self.letters(60, 400)),
            ),
            5 => (self.own_note(), "mistake".into()),
            6 => (self.about_note(false), self.letters(500, 900)),
            7 => (
                self.about_note(true),
                ["+", "❤️", "🤙", "🔥"][self.random.below(4)].into(),
            ),
            1059 => (vec![self.p(None)], self.letters(900, 2_200)),
            1984 => (self.about_note(false), "spam".into()),
            9735 => self.zap(),
            10_002 => (self.relays(), String::new()),
            30_000 | 30_078 => self.list(kind),
            30_023 => self.article(),
            _ => self.note(),
        }
    }

    fn note(&mut self) -> (Tags, String) {
        let mut tags = Tags::new();
        if self.random.percent(55) {
            tags.extend(self.about_note(false));
            if self.random.percent(50) {
                tags.extend(self.about_note(false));
            }
        }
        let mut content = self.words(4, 60);
        if self.random.percent(25) {
            for _ in 0..self.random.range(1, 4) {
                let tag = self.hashtag();
                let _ = write!(content, " #{tag}");
                tags.push(vec!["t".into(), tag]);
            }
        }
        if self.random.percent(15) {
            let link = self.letters(40, 64);
            let _ = write!(content, "\nhttps://media.example.com/{link}.jpg");
        }
        (tags, content)
    }

    /// `e` and `p` of an earlier note, mostly a recent one.
    fn about_note(&mut self, marked: bool) -> Tags {
        let Some(note) = self.note_before() else {
            return vec![self.p(None)];
        };
        let mut e = vec!["e".into(), note.id.to_string(), "wss://relay.example.com".into()];
        if !marked {
            e.push("reply".into());
        }
        vec![e, self.p(Some(note.author))]
    }

    fn note_before(&mut self) -> Option<Note> {
        let notes = &self.world.notes;
        (!notes.is_empty()).then(|| notes[notes.len() - 1 - self.random.zipf(notes.len())])
    }

    /// Deletes one of the author's own notes, if one is found soon.
    fn own_note(&mut self) -> Tags {
        let own = (0..200).find_map(|_| self.note_before().filter(|note| note.author == self.person));
        match own {
            Some(note) => vec![
                vec!["e".into(), note.id.to_string()],
                vec!["k".into(), "1".into()],
            ],
            None => vec![vec![
                "a".into(),
                format!("30023:{}:draft", self.world.people[self.person].public()),
            ]],
        }
    }

    fn p(&mut self, person: Option<usize>) -> Vec<String> {
        let person = person.unwrap_or_else(|| self.random.zipf(self.world.people.len()));
        vec!["p".into(), self.world.people[person].public().to_string()]
    }

    fn contacts(&mut self) -> Tags {
        let count = match self.random.below(10) {
            0..4 => self.random.range(20, 150),
            4..8 => self.random.range(150, 450),
            _ => self.random.range(450, 900),
        };
        let first = self.random.below(self.world.people.len());
        // Neighbours, so that nobody is followed twice.
        (0..count.min(self.world.people.len()))
            .map(|offset| self.p(Some((first + offset) % self.world.people.len())))
            .collect()
    }

    fn profile(&mut self) -> String {
        let (name, picture, about) = (self.letters(5, 14), self.letters(50, 64), self.words(5, 40));
        format!(
            "{{\"name\":\"{name}\",\"about\":\"{about}\",\"picture\":\"https://media.example.com/{picture}.png\",\
             \"nip05\":\"{name}@example.com\",\"lud16\":\"{name}@wallet.example.com\"}}"
        )
    }

    fn zap(&mut self) -> (Tags, String) {
        let request_about = self.about_note(true);
        let invoice = format!("lnbc{}", self.letters(280, 340));
        let description = format!(
            "{{\"kind\":9734,\"content\":\"\",\"tags\":{},\"sig\":\"{}\"}}",
            serde_json::json!(request_about),
            self.letters(128, 129)
        );
        let mut tags = request_about;
        tags.push(vec!["bolt11".into(), invoice]);
        tags.push(vec!["description".into(), description]);
        (tags, String::new())
    }

    fn relays(&mut self) -> Tags {
        (0..self.random.range(3, 9))
            .map(|_| {
                vec![
                    "r".into(),
                    format!("wss://relay{}.example.com", self.random.zipf(300)),
                ]
            })
            .collect()
    }

    fn list(&mut self, kind: u16) -> (Tags, String) {
        let mut tags = vec![vec!["d".into(), format!("list-{}", self.random.below(5))]];
        if kind == 30_000 {
            tags.extend((0..self.random.range(5, 80)).map(|_| self.p(None)));
        }
        (tags, self.letters(100, 900))
    }

    fn article(&mut self) -> (Tags, String) {
        let mut tags = vec![
            vec!["d".into(), self.letters(8, 20)],
            vec!["title".into(), self.words(3, 9)],
            vec!["published_at".into(), self.created_at.to_string()],
        ];
        tags.extend((0..3).map(|_| vec!["t".into(), self.hashtag()]));
        (tags, self.words(300, 1_500))
    }

    fn hashtag(&mut self) -> String {
        let rank = self.random.zipf(2_000);
        if rank < 3 {
            ["nostr", "bitcoin", "grownostr"][rank].into()
        } else {
            format!("topic{rank}")
        }
    }

    fn words(&mut self, from: usize, to: usize) -> String {
        const SYLLABLES: [&str; 16] = [
            "ka", "lo", "mi", "ner", "sto", "ve", "rin", "a", "ta", "bel", "dor", "ü", "sh", "wen", "on", "é",
        ];
        let mut text = String::new();
        for word in 0..self.random.range(from, to) {
            if word > 0 {
                text.push(' ');
            }
            for _ in 0..self.random.range(1, 4) {
                text.push_str(SYLLABLES[self.random.zipf(SYLLABLES.len())]);
            }
        }
        text
    }

    /// Letters and digits that do not compress, as ciphertext and invoices do not.
    fn letters(&mut self, from: usize, to: usize) -> String {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let length = self.random.range(from, to);
        let mut text = String::with_capacity(length);
        while text.len() < length {
            let mut bits = self.random.next();
            for _ in 0..12.min(length - text.len()) {
                text.push(char::from(
                    ALPHABET[usize::try_from(bits % 32).expect("below 32")],
                ));
                bits >>= 5;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, KINDS, World};

    fn corpus(seed: u64, events: u64) -> Vec<esker_nostr::Event> {
        let mut world = World::new(seed, events);
        let mut all = Vec::new();
        for from in (0..events).step_by(usize::try_from(CHUNK).unwrap()) {
            let chunk = world.generate(from, (from + CHUNK).min(events));
            world.remember(&chunk);
            all.extend(chunk);
        }
        all
    }

    #[test]
    fn a_corpus_is_the_same_for_its_seed_valid_and_in_time_order() {
        use esker_nostr::EventFields as _;
        let events = corpus(7, 5_000);
        assert!(
            events
                .iter()
                .zip(corpus(7, 5_000))
                .all(|(one, other)| *one.json() == other.json())
        );
        assert_ne!(events[0].json(), corpus(8, 1)[0].json());
        for event in events.iter().step_by(50) {
            event.verify().unwrap();
            assert_eq!(
                esker_nostr::Event::parse(event.json()).unwrap().json(),
                event.json()
            );
        }
        assert!(
            events
                .windows(2)
                .all(|pair| pair[0].created_at() <= pair[1].created_at() + 2)
        );
        let bytes = |kind: Option<u16>| -> usize {
            events
                .iter()
                .filter(|event| kind.is_none_or(|kind| kind == event.kind()))
                .map(|event| event.json().len())
                .sum()
        };
        let contacts = 100 * bytes(Some(3)) / bytes(None);
        assert!(
            (38..=48).contains(&contacts),
            "contact lists are {contacts} % of the bytes"
        );
        let mean = bytes(None) / events.len();
        assert!((1_200..=1_700).contains(&mean), "an event has {mean} bytes");
    }

    #[test]
    fn the_shares_of_kinds_are_per_mille() {
        assert_eq!(KINDS.iter().map(|(_, share)| share).sum::<usize>(), 1_000);
    }
}
