//! Wakes: how long they take to another process, and what waiting for them costs.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};

use crate::{Contender, Listener as _, Result, Target, callers, clock, figure};

const CHANNEL: &str = "wakes";
/// Notifications come so far apart, so that each finds the others at rest. The second is no multiple of the first, nor of
/// a watcher's cadence.
const PACES: [Duration; 2] = [Duration::from_micros(5_300), Duration::from_micros(8_700)];
/// So many listeners wait when the cost of waiting is taken.
const LISTENERS: usize = 100;

/// The listening process: tells when each wake came, one line each, until it is ended.
pub(crate) async fn tell<C: Contender>(contender: &C) -> Result<()> {
    let mut listener = contender.listen(CHANNEL.to_owned()).await?;
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    output.flush()?;
    loop {
        listener.wake().await?;
        writeln!(output, "{}", clock::now().as_nanos())?;
        output.flush()?;
    }
}

/// The time from a call of `notify` to the wake in another process.
pub(crate) async fn across_processes<C: Contender>(
    contender: &C,
    target: &Target,
    time: Duration,
) -> Result<()> {
    let mut child = Command::new(env::current_exe()?)
        .args([
            "--listen",
            "--measure",
            "wake",
            "--store",
            &target.store,
            "--variant",
            &target.variant,
        ])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let ready = lines.next().context("the listening process ended")??;
    ensure!(ready == "ready", "the listening process says {ready}");
    let (wakes, woken) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in lines {
            let nanoseconds = line.ok().and_then(|line| line.parse().ok());
            if nanoseconds.is_none_or(|wake| wakes.send(Duration::from_nanos(wake)).is_err()) {
                break;
            }
        }
    });
    let mut sent = Vec::new();
    let began = clock::now();
    // A few to warm up: what is compiled, cached and connected by the first call is not what is measured.
    while clock::now() - began < time + Duration::from_millis(200) {
        sent.push(clock::now());
        contender.notify(CHANNEL.to_owned()).await?;
        let pace = PACES[sent.len() % 2];
        thread::sleep(pace.saturating_sub(clock::now() - sent[sent.len() - 1]));
    }
    thread::sleep(Duration::from_millis(100));
    child.kill()?;
    child.wait()?;
    reader.join().expect("it does not panic");
    let woken: Vec<Duration> = woken.into_iter().collect();
    let measured = sent
        .iter()
        .filter(|sent| **sent - began > Duration::from_millis(200));
    let (mut latencies, mut lost) = (Vec::new(), 0);
    for sent in measured {
        let next = woken.partition_point(|woken| woken < sent);
        match woken.get(next) {
            Some(woken) if *woken - *sent < Duration::from_secs(1) => latencies.push(*woken - *sent),
            _ => lost += 1,
        }
    }
    ensure!(lost == 0, "{lost} of {} wakes did not come", sent.len());
    for percent in [50, 90, 99] {
        figure(
            &format!("wake-p{percent}"),
            "ms",
            clock::percentile(&mut latencies, percent),
        );
    }
    Ok(())
}

/// The share of a core that a process uses while it waits for wakes that do not come.
pub(crate) async fn idle<C: Contender>(contender: &C, time: Duration) -> Result<()> {
    for number in 0..LISTENERS {
        let mut listener = contender.listen(format!("channel-{number}")).await?;
        callers::spawn::<C>(async move { while listener.wake().await.is_ok() {} });
    }
    // What opening has left to do is not idling.
    thread::sleep(Duration::from_secs(1));
    let (began, used) = (clock::now(), clock::processor());
    thread::sleep(time);
    let share = (clock::processor() - used).as_secs_f64() / (clock::now() - began).as_secs_f64();
    figure("idle", "% of a core", share * 100.0);
    Ok(())
}
