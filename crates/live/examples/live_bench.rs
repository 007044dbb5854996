//! What the live path costs in process: looking up, registering, delivering, remembering.
//!
//! `cargo run --release -p esker-live --example live_bench`

use std::{
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use esker_events_api::{Accepted, Change, Filters};
use esker_live::{Dispatcher, FilterIndex, Options, Outbound, OutboundLimits, Sink, Subscription};
use esker_nostr::{Event, EventFields, EventId, Filter, Keys, PublicKey, TagCondition};

const FILTERS: u32 = 100_000;

/// A note by author `n`, with a `p`, an `e` and a `t` tag.
struct Note {
    author: PublicKey,
    person: String,
}

impl EventFields for Note {
    fn id(&self) -> EventId {
        EventId(self.author.0)
    }
    fn pubkey(&self) -> PublicKey {
        self.author
    }
    fn created_at(&self) -> i64 {
        1
    }
    fn kind(&self) -> u16 {
        1
    }
    fn any_tag(&self, test: &mut dyn FnMut(char, &str) -> bool) -> bool {
        test('p', &self.person) || test('e', &self.person) || test('t', "nostr")
    }
}

/// Spread over the whole key, as real keys are.
fn author(n: u32) -> PublicKey {
    let mut key = [0; 32];
    let mut state = u64::from(n).wrapping_add(0x9E37_79B9_7F4A_7C15);
    for word in key.chunks_exact_mut(8) {
        state = (state ^ (state >> 30))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            .wrapping_add(0x94D0_49BB_1331_11EB);
        word.copy_from_slice(&state.to_be_bytes());
    }
    PublicKey(key)
}

fn filter(n: u32) -> Filter {
    Filter {
        authors: Some([author(n)].into_iter().collect()),
        kinds: Some([1].into_iter().collect()),
        ..Filter::default()
    }
}

/// No stride that a processor could foresee.
fn shuffle(order: &mut [u32]) {
    let mut state = 1_u64;
    for last in (1..order.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let below = u64::try_from(last + 1).expect("a length");
        order.swap(last, usize::try_from((state >> 33) % below).expect("an index"));
    }
}

fn nanoseconds(time: Duration, n: usize) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(u32::try_from(n).expect("a small number"))
}

fn median(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

fn main() {
    let mut order: Vec<_> = (0..FILTERS).collect();
    shuffle(&mut order);
    let notes: Vec<_> = order
        .into_iter()
        .map(|n| Note {
            author: author(n),
            person: author(FILTERS - 1 - n).to_string(),
        })
        .collect();
    let filters: Vec<_> = (0..2 * FILTERS).map(filter).collect();
    let mut index = FilterIndex::new();
    for n in 0..FILTERS {
        index.register(std::slice::from_ref(&filters[n as usize]), n);
    }
    lookups(&mut index, &notes);
    registrations(&mut index, &filters);
    mixed(&mut index, &notes, &filters);

    let person = |n: u32| TagCondition {
        name: 'p',
        values: [author(n).to_string().into_boxed_str()].into_iter().collect(),
    };
    for n in 0..FILTERS {
        index.register(
            &[Filter {
                tags: vec![person(n)],
                ..Filter::default()
            }],
            FILTERS + n,
        );
    }
    println!("with 100,000 #p filters beside them:");
    lookups(&mut index, &notes);
    drop(index);

    for subscriptions in [100, 1_000, 10_000, 100_000] {
        latency(subscriptions);
    }
    broadcast(10_000);
    memory();
}

fn lookups(index: &mut FilterIndex<u32>, notes: &[Note]) {
    let mut found = 0_u64;
    let times = (0..20)
        .map(|_| {
            let start = Instant::now();
            for note in notes {
                index.for_each_candidate(note, |_| found += 1);
            }
            nanoseconds(start.elapsed(), notes.len())
        })
        .collect();
    println!(
        "candidates, 100,000 author filters: {:.0} ns (found {found})",
        median(times).0
    );
}

fn registrations(index: &mut FilterIndex<u32>, filters: &[Filter]) {
    let times = (0..20)
        .map(|_| {
            let start = Instant::now();
            for n in FILTERS..FILTERS + 10_000 {
                index.register(std::slice::from_ref(&filters[n as usize]), n);
                index.unregister(n);
            }
            nanoseconds(start.elapsed(), 10_000)
        })
        .collect();
    println!("register + unregister, one author: {:.0} ns", median(times).0);
    let feed = Filter {
        authors: Some((0..300).map(author).collect()),
        ..Filter::default()
    };
    let start = Instant::now();
    for _ in 0..1000 {
        index.register(std::slice::from_ref(&feed), u32::MAX);
        index.unregister(u32::MAX);
    }
    println!(
        "register + unregister, 300 authors: {:.0} ns",
        nanoseconds(start.elapsed(), 1000)
    );
}

/// Lookups without a pause for three seconds, while each 100 us one subscriber comes and an older one goes.
fn mixed(index: &mut FilterIndex<u32>, notes: &[Note], filters: &[Filter]) {
    let (start, tick) = (Instant::now(), Duration::from_micros(100));
    let (mut next, mut registered, mut times, mut found) = (start + tick, 0_u32, Vec::new(), 0_u64);
    let mut notes = notes.chunks_exact(10).cycle();
    while start.elapsed() < Duration::from_secs(3) {
        while Instant::now() >= next {
            let n = FILTERS + registered % FILTERS;
            index.register(std::slice::from_ref(&filters[n as usize]), n);
            if registered >= 1000 {
                index.unregister(FILTERS + (registered - 1000) % FILTERS);
            }
            registered += 1;
            next += tick;
        }
        let batch = notes.next().expect("an endless cycle");
        let before = Instant::now();
        for note in batch {
            index.for_each_candidate(note, |_| found += 1);
        }
        times.push(nanoseconds(before.elapsed(), batch.len()));
    }
    let lookups = times.len() * 10;
    let (p50, p99) = median(times);
    println!(
        "candidates with {} registrations/s: p50 {p50:.0} ns, p99 of tens {p99:.0} ns ({lookups} lookups, {found} found)",
        registered / 3
    );
    for n in registered.saturating_sub(1000)..registered {
        index.unregister(FILTERS + n % FILTERS);
    }
}

struct Signal(SyncSender<Instant>);

impl Sink for Signal {
    fn deliver(&self, _: &Accepted) {
        // An error is a benchmark that has ended.
        let _ = self.0.send(Instant::now());
    }
}

fn note() -> Arc<Event> {
    Arc::new(Keys::from_seed(1).sign(1, 1, &[] as &[Vec<String>], &"text ".repeat(60)))
}

fn dispatcher() -> Dispatcher {
    Dispatcher::start(&Options::default()).expect("a thread")
}

/// From commit to delivery, through the dispatcher's thread, one of N subscriptions matching.
fn latency(subscriptions: u32) {
    let dispatcher = dispatcher();
    let event = note();
    let (signal, arrived) = sync_channel(1);
    let sink: Arc<dyn Sink> = Arc::new(Signal(signal));
    let mine = Filter {
        authors: Some([event.pubkey()].into_iter().collect()),
        ..filter(0)
    };
    let _registrations: Vec<_> = (1..subscriptions)
        .map(filter)
        .chain([mine])
        .map(|filter| dispatcher.register([filter].into(), Arc::clone(&sink)))
        .collect();
    dispatcher.flush();
    let observer = dispatcher.observer();
    let times = (0..5000)
        .map(|offset| {
            let start = Instant::now();
            observer(&[Change::Accepted(Accepted {
                offset: Some(offset),
                event: Arc::clone(&event),
            })]);
            let end = arrived.recv().expect("the dispatcher runs");
            nanoseconds(end - start, 1) / 1000.0
        })
        .collect();
    let (p50, p99) = median(times);
    println!("commit to sink, one of {subscriptions}: p50 {p50:.1} us, p99 {p99:.1} us");
}

fn broadcast(connections: u32) {
    let dispatcher = dispatcher();
    let everything: Filters = [Filter::default()].into();
    let limits = OutboundLimits {
        bytes: 1 << 30,
        frames: 1 << 20,
    };
    let open: Vec<_> = (0..connections)
        .map(|_| {
            let outbound = Arc::new(Outbound::new(limits));
            let subscription = Arc::new(Subscription::new("s", outbound));
            subscription.stored_done();
            let registration = dispatcher.register(
                Arc::clone(&everything),
                Arc::clone(&subscription) as Arc<dyn Sink>,
            );
            (subscription, registration)
        })
        .collect();
    let event = note();
    let observer = dispatcher.observer();
    dispatcher.flush();
    let start = Instant::now();
    for offset in 1..=100 {
        observer(&[Change::Accepted(Accepted {
            offset: Some(offset),
            event: Arc::clone(&event),
        })]);
    }
    dispatcher.flush();
    let each = nanoseconds(start.elapsed(), 100 * open.len());
    println!("broadcast to {connections} buffers: {each:.0} ns a delivery");
}

fn memory() {
    let bytes = |what: &mut dyn FnMut()| allocation_counter::measure(what).bytes_current;
    let mut outbounds = Vec::with_capacity(1000);
    let connection = bytes(&mut || {
        outbounds.extend((0..1000).map(|_| Arc::new(Outbound::new(OutboundLimits::default()))));
    });
    let mut subscriptions = Vec::with_capacity(1000);
    let subscription = bytes(&mut || {
        subscriptions.extend(
            (0..1000).map(|_| Arc::new(Subscription::new("subscription", Arc::clone(&outbounds[0])))),
        );
    });
    let mut index = FilterIndex::new();
    let indexed = bytes(&mut || {
        for n in 0..FILTERS {
            index.register(std::slice::from_ref(&filter(n)), n);
        }
    });
    println!(
        "memory: {} bytes an idle buffer, {} a subscription",
        connection / 1000,
        subscription / 1000
    );
    println!(
        "memory: {} bytes an entry of the index (100,000 authors)",
        indexed / i64::from(FILTERS)
    );
}
