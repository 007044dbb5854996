//! permessage-deflate (RFC 7692) without context takeover: states are borrowed from a pool for one message.
//!
//! Nothing carries over from one message to the next, so a connection holds no deflate state while it is idle,
//! and memory follows the messages in flight.

use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Violation;

/// How many idle states of each direction are kept: about as many as messages are handled at one moment.
const KEPT: usize = 16;

/// Every flush ends with this empty stored block; RFC 7692 leaves it out of the message.
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// Deflate states that the connections of a relay share.
#[derive(Default)]
pub(crate) struct DeflatePool {
    deflaters: Mutex<Vec<Deflater>>,
    inflaters: Mutex<Vec<Decompress>>,
}

/// A compressor and the buffer that it fills.
struct Deflater {
    state: Compress,
    out: Vec<u8>,
}

impl DeflatePool {
    /// Deflates a message given in parts and hands the result to `take`.
    pub(super) fn deflate<R>(&self, parts: &[&[u8]], take: impl FnOnce(&[u8]) -> R) -> R {
        let pooled = lock(&self.deflaters).pop();
        let mut deflater = pooled.unwrap_or_else(|| Deflater {
            state: Compress::new(Compression::fast(), false),
            out: Vec::new(),
        });
        for part in parts {
            deflater.feed(part);
        }
        deflater.flush();
        let result = take(&deflater.out);
        deflater.state.reset();
        deflater.out.clear();
        deflater.out.shrink_to(1 << 16);
        put_back(&self.deflaters, deflater);
        result
    }

    /// Inflates a message, of at most `max` bytes. Memory grows with what has been inflated, never beyond
    /// `max` and one byte: a deflate bomb ends there.
    pub(super) fn inflate(&self, message: &[u8], max: usize) -> Result<Vec<u8>, Violation> {
        let pooled = lock(&self.inflaters).pop();
        let mut state = pooled.unwrap_or_else(|| Decompress::new(false));
        let mut out = Vec::new();
        for part in [message, &TAIL] {
            inflate_part(&mut state, part, &mut out, max)?;
        }
        // A state that failed is in no defined condition and was dropped above.
        state.reset(false);
        put_back(&self.inflaters, state);
        Ok(out)
    }
}

impl Deflater {
    fn feed(&mut self, mut input: &[u8]) {
        while !input.is_empty() {
            self.out.reserve(input.len() / 2 + 64);
            input = &input[self.step(input, FlushCompress::None)..];
        }
    }

    fn flush(&mut self) {
        loop {
            self.out.reserve(64);
            self.step(&[], FlushCompress::Sync);
            // Room left over: the flush is complete.
            if self.out.len() < self.out.capacity() {
                break;
            }
        }
        debug_assert!(self.out.ends_with(&TAIL));
        self.out.truncate(self.out.len() - TAIL.len());
    }

    /// One call into the compressor; how much input it took.
    fn step(&mut self, input: &[u8], flush: FlushCompress) -> usize {
        let before = self.state.total_in();
        self.state
            .compress_vec(input, &mut self.out, flush)
            .expect("a compressor that is given room and not finished cannot fail");
        usize::try_from(self.state.total_in() - before).expect("no more was taken than the slice holds")
    }
}

fn inflate_part(
    state: &mut Decompress,
    mut input: &[u8],
    out: &mut Vec<u8>,
    max: usize,
) -> Result<(), Violation> {
    loop {
        if out.len() > max {
            return Err(Violation::TooBig);
        }
        if out.len() == out.capacity() {
            let growth = out.len().max(input.len() * 4).clamp(256, 1 << 16);
            out.reserve_exact(growth.min(max + 1 - out.len()));
        }
        let (taken, given) = (state.total_in(), out.len());
        let status = state
            .decompress_vec(input, out, FlushDecompress::Sync)
            .map_err(|_| Violation::Payload("the message is not deflated"))?;
        let taken =
            usize::try_from(state.total_in() - taken).expect("no more was taken than the slice holds");
        input = &input[taken..];
        let stuck = taken == 0 && out.len() == given && out.len() < out.capacity();
        match status {
            // A final block ends a stream; RFC 7692 lets another one follow in the same message.
            Status::StreamEnd => state.reset(false),
            _ if stuck && !input.is_empty() => return Err(Violation::Payload("the message is not deflated")),
            _ => {}
        }
        if input.is_empty() && out.len() < out.capacity() {
            return if out.len() > max {
                Err(Violation::TooBig)
            } else {
                Ok(())
            };
        }
    }
}

fn put_back<T>(pool: &Mutex<Vec<T>>, state: T) {
    let mut pool = lock(pool);
    if pool.len() < KEPT {
        pool.push(state);
    }
}

/// Poison means nothing here: a state is never in the pool while it is used.
fn lock<T>(pool: &Mutex<T>) -> MutexGuard<'_, T> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{DeflatePool, KEPT, lock};
    use crate::transport::websocket::Violation;

    fn deflate(pool: &DeflatePool, parts: &[&[u8]]) -> Vec<u8> {
        pool.deflate(parts, <[u8]>::to_vec)
    }

    #[test]
    fn relay_12_a_message_in_parts_comes_back_whole() {
        let pool = DeflatePool::default();
        let body: Vec<u8> = (0_u32..40_000)
            .flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes())
            .collect();
        for parts in [&[&b""[..]][..], &[b"a"], &[b"[\"EVENT\",\"s\",", &body, b"]"]] {
            let wire = deflate(&pool, parts);
            assert_eq!(pool.inflate(&wire, 1 << 20).unwrap(), parts.concat());
        }
    }

    #[test]
    fn relay_12_nothing_carries_over_between_messages() {
        let pool = DeflatePool::default();
        let first = deflate(&pool, &[b"the same words, the same words"]);
        assert_eq!(deflate(&pool, &[b"the same words, the same words"]), first);
        assert_eq!(lock(&pool.deflaters).len(), 1);
    }

    #[test]
    fn relay_12_a_bomb_ends_at_the_limit() {
        let pool = DeflatePool::default();
        let bomb = deflate(&pool, &[&vec![b'a'; 50_000_000]]);
        assert!(bomb.len() < 1_000_000);
        assert!(matches!(pool.inflate(&bomb, 1 << 16), Err(Violation::TooBig)));
        // Exactly the limit is no bomb.
        let fits = deflate(&pool, &[&vec![b'a'; 1 << 16]]);
        assert_eq!(pool.inflate(&fits, 1 << 16).unwrap().len(), 1 << 16);
        assert!(matches!(
            pool.inflate(&fits, (1 << 16) - 1),
            Err(Violation::TooBig)
        ));
    }

    #[test]
    fn relay_12_memory_stays_at_the_limit_while_a_message_is_inflated() {
        let pool = DeflatePool::default();
        let wire = deflate(&pool, &[&vec![b'a'; 100_000]]);
        assert!(pool.inflate(&wire, 1 << 20).unwrap().capacity() <= 1 << 18);
        assert!(pool.inflate(&wire, 100_000).unwrap().capacity() <= 100_001);
    }

    #[test]
    fn relay_12_garbage_is_refused_and_its_state_not_kept() {
        let pool = DeflatePool::default();
        for garbage in [
            &b"\xFF\xFF\xFF\xFF"[..],
            b"\x07",
            b"hello, this is no deflate stream at all",
        ] {
            assert!(pool.inflate(garbage, 1 << 16).is_err(), "{garbage:x?}");
        }
        assert_eq!(lock(&pool.inflaters).len(), 0);
    }

    #[test]
    fn relay_12_a_final_block_may_end_a_message() {
        let pool = DeflatePool::default();
        // RFC 7692 section 7.2.3.4: "Hello" in a block with BFINAL set, then an empty block.
        let wire = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
        assert_eq!(pool.inflate(&wire, 100).unwrap(), b"Hello");
    }

    #[test]
    fn relay_12_the_pool_keeps_a_bounded_number_of_states() {
        let pool = DeflatePool::default();
        std::thread::scope(|scope| {
            for _ in 0..KEPT * 2 {
                scope.spawn(|| deflate(&pool, &[b"x"]));
            }
        });
        assert!(lock(&pool.deflaters).len() <= KEPT);
    }
}
