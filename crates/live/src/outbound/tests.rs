//! The bounds of a connection's buffer, its orderly and its sudden end, and how it paces producers.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;

use super::{Closing, Outbound, OutboundLimits, SLOW_READER};
use crate::{Counters, Frame};

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn outbound(bytes: usize, frames: usize) -> (Outbound, Arc<Counters>) {
    let counters = Arc::<Counters>::default();
    (
        Outbound::new(OutboundLimits { bytes, frames }).counting(Arc::clone(&counters)),
        counters,
    )
}

fn text(text: &str) -> Frame {
    Frame::Text(text.into())
}

fn overflows(counters: &Counters) -> u64 {
    counters.overflows.load(Ordering::Relaxed)
}

/// What the writer gets without waiting.
fn taken(outbound: &Outbound, max_bytes: usize) -> Poll<Result<Vec<Frame>, Closing>> {
    let mut frames = Vec::new();
    let result = poll(pin!(outbound.next(&mut frames, max_bytes)));
    result.map(|result| result.map(|()| frames))
}

#[test]
fn live_11_an_event_frame_is_its_head_the_shared_body_and_a_bracket() {
    let head: Arc<str> = r#"["EVENT","s","#.into();
    let body = Bytes::from_static(br#"{"id":"0"}"#);
    let frame = Frame::Event {
        head,
        body: body.clone(),
    };
    assert_eq!(frame.parts().concat(), br#"["EVENT","s",{"id":"0"}]"#);
    assert_eq!(frame.len(), 24);
    assert_eq!(frame.parts()[1].as_ptr(), body.as_ptr());
    assert_eq!(Frame::Ping(Bytes::from_static(b"p")).parts().concat(), b"p");
    assert!(text("").is_empty());
}

#[test]
fn live_12_frames_come_in_order_and_in_batches_of_so_many_bytes() {
    let (outbound, _) = outbound(1000, 100);
    for frame in ["aaaa", "bbbb", "cccc", "", "dddd"] {
        assert!(outbound.push(text(frame)));
    }
    assert_eq!((outbound.len(), outbound.bytes()), (5, 16));
    assert_eq!(
        taken(&outbound, 8),
        Poll::Ready(Ok(vec![text("aaaa"), text("bbbb")]))
    );
    assert_eq!(
        taken(&outbound, 1),
        Poll::Ready(Ok(vec![text("cccc")])),
        "at least one"
    );
    assert_eq!(
        taken(&outbound, 100),
        Poll::Ready(Ok(vec![text(""), text("dddd")]))
    );
    assert_eq!((outbound.len(), outbound.bytes()), (0, 0));
    assert_eq!(taken(&outbound, 100), Poll::Pending);
}

#[test]
fn live_12_the_writer_sleeps_until_there_is_something() {
    let (outbound, _) = outbound(1000, 100);
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut frames = Vec::new();
    {
        let mut next = pin!(outbound.next(&mut frames, 100));
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        outbound.push(text("a"));
        outbound.push(text("b"));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "one wake for what waits");
        assert_eq!(next.poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(())));
    }
    assert_eq!(frames, [text("a"), text("b")]);
    let mut next = pin!(outbound.next(&mut frames, 100));
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    outbound.close(1000, "bye");
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    assert!(next.poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn live_12_an_overflow_closes_with_a_reason_drops_what_waits_and_counts_once() {
    for (bytes, frames) in [(1000, 3), (12, 100)] {
        let (outbound, counters) = outbound(bytes, frames);
        let body = Bytes::from(vec![b'x'; 3]);
        let frame = Frame::Event {
            head: "".into(),
            body: body.clone(),
        };
        for _ in 0..3 {
            assert!(outbound.push(frame.clone()));
        }
        assert!(!outbound.is_closed());
        assert!(!outbound.push(frame.clone()));
        drop(frame);
        assert!(body.is_unique(), "what waited is dropped");
        assert!(outbound.is_closed());
        assert_eq!(outbound.closing(), Some(SLOW_READER));
        assert_eq!((outbound.len(), outbound.bytes()), (0, 0));
        assert!(!outbound.push(text("later")));
        outbound.close(1000, "later");
        assert_eq!(taken(&outbound, 100), Poll::Ready(Err(SLOW_READER)));
        assert!(poll(pin!(outbound.aborted())).is_ready());
        assert_eq!(overflows(&counters), 1);
    }
    assert!(SLOW_READER.reason.len() <= 123, "a close frame has room for it");
}

#[test]
fn live_12_a_frame_larger_than_the_limit_goes_when_nothing_waits() {
    let (outbound, counters) = outbound(4, 10);
    assert!(outbound.push(text("longer than four")));
    assert!(!outbound.push(text("a")));
    assert_eq!(overflows(&counters), 1);
}

#[test]
fn live_12_a_close_in_order_sends_what_waits_first() {
    let (outbound, counters) = outbound(100, 10);
    outbound.push(text("a"));
    outbound.close(1001, "going away");
    assert!(!outbound.push(text("b")));
    assert!(poll(pin!(outbound.aborted())).is_pending());
    assert_eq!(taken(&outbound, 100), Poll::Ready(Ok(vec![text("a")])));
    let closing = Closing {
        code: 1001,
        reason: "going away".into(),
    };
    assert_eq!(taken(&outbound, 100), Poll::Ready(Err(closing)));
    assert_eq!(overflows(&counters), 0);
}

#[test]
fn live_12_an_abort_wakes_a_writer_that_hangs_in_its_socket() {
    let (outbound, counters) = outbound(100, 10);
    outbound.push(text("a"));
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut aborted = pin!(outbound.aborted());
    assert!(
        aborted
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    outbound.close(1001, "going away");
    outbound.abort(1006, "broken");
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(aborted.poll(&mut Context::from_waker(&waker)).is_ready());
    assert!(outbound.is_empty());
    assert_eq!(outbound.closing().unwrap().code, 1001, "the first close counts");
    assert_eq!(overflows(&counters), 0);
}

#[test]
fn live_12_a_query_waits_until_a_quarter_is_left() {
    for (outbound, frame) in [(outbound(1000, 16).0, ""), (outbound(160, 1000).0, "ten bytes!")] {
        let frame = text(frame);
        for _ in 0..16 {
            outbound.push(frame.clone());
        }
        let mut room = pin!(outbound.room());
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(room.as_mut().poll(&mut context).is_pending());
        for _ in 0..11 {
            assert!(taken(&outbound, 1).is_ready());
            assert!(room.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(
            woken.0.load(Ordering::SeqCst),
            0,
            "not woken before there is room"
        );
        assert!(taken(&outbound, 1).is_ready());
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(matches!(room.poll(&mut context), Poll::Ready(Some(_))));
    }
}

#[test]
fn live_12_queries_of_a_connection_take_turns() {
    let (outbound, _) = outbound(100, 10);
    let Poll::Ready(Some(first)) = poll(pin!(outbound.room())) else {
        panic!("there is room")
    };
    let mut second = pin!(outbound.room());
    let mut fourth = pin!(outbound.room());
    assert!(poll(second.as_mut()).is_pending());
    {
        let mut third = pin!(outbound.room());
        assert!(poll(third.as_mut()).is_pending());
        assert!(poll(fourth.as_mut()).is_pending());
    }
    drop(first);
    let Poll::Ready(Some(second)) = poll(second.as_mut()) else {
        panic!("it is the second's turn")
    };
    assert!(poll(fourth.as_mut()).is_pending());
    drop(second);
    assert!(
        matches!(poll(fourth.as_mut()), Poll::Ready(Some(_))),
        "the third has left"
    );
}

#[test]
fn live_12_the_end_of_a_connection_ends_those_who_wait_for_room() {
    let (outbound, _) = outbound(100, 4);
    for _ in 0..4 {
        outbound.push(text("a"));
    }
    let (mut waits, mut queues) = (pin!(outbound.room()), pin!(outbound.room()));
    assert!(poll(waits.as_mut()).is_pending());
    assert!(poll(queues.as_mut()).is_pending());
    // The first still has its turn.
    outbound.close(1000, "bye");
    assert!(matches!(poll(queues), Poll::Ready(None)));
    assert!(matches!(poll(waits), Poll::Ready(None)));
    assert!(matches!(poll(pin!(outbound.room())), Poll::Ready(None)));
}

#[test]
fn live_12_held_events_count_against_the_limits() {
    let (outbound, counters) = outbound(100, 4);
    assert!(outbound.hold(1) && outbound.hold(1));
    assert!(outbound.push(text("a")) && outbound.push(text("b")));
    outbound.release(1, 1);
    assert!(outbound.push(text("c")));
    outbound.push_held([text("h")]);
    assert_eq!(outbound.len(), 4);
    assert_eq!(overflows(&counters), 0);
    assert!(!outbound.hold(1));
    assert_eq!(overflows(&counters), 1);
    assert!(!outbound.hold(1) && overflows(&counters) == 1);
}

#[test]
fn live_12_an_idle_connection_keeps_no_buffer() {
    let (outbound, _) = outbound(1 << 20, 10_000);
    assert_eq!(outbound.lock().queue.capacity(), 0);
    for _ in 0..5000 {
        outbound.push(text("a"));
    }
    while taken(&outbound, 1000).is_ready() {}
    assert!(outbound.lock().queue.capacity() <= 16);
    assert!(size_of::<Outbound>() <= 320, "{}", size_of::<Outbound>());
}
