//! The measurements.

use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{
    client::{BenchBusClient, FrameCounts, message},
    daemons::{BenchBusDaemon, BusImplementation},
    figures::Figures,
};

const THROUGHPUT: usize = 100_000;
/// The most messages that are sent and not yet accepted.
const WINDOW: usize = 4096;
const ALONE: usize = 3000;
const PACED: usize = 300;
const ENDPOINTS: usize = 10_000;
const NOTIFIED: usize = 20;

/// Measures one sender and one receiver at full speed.
pub(crate) fn throughput(figures: &mut Figures) -> Result<()> {
    for whose in BusImplementation::BOTH {
        let daemon = BenchBusDaemon::start(whose)?;
        let before = daemon.processor()?;
        let took = pipelined(&daemon.socket(), whose == BusImplementation::Angelia)?;
        let used = daemon.processor()?.saturating_sub(before);
        let name = whose.name();
        figures.add(&format!("{name}: pipelined, msg/s"), THROUGHPUT as f64 / took.as_secs_f64());
        let each = used.as_secs_f64() * 1e6 / THROUGHPUT as f64;
        figures.add(&format!("{name}: processor per message, µs"), each);
    }
    Ok(())
}

fn pipelined(socket: &Path, asks: bool) -> Result<Duration> {
    let mut receiver = BenchBusClient::connect_registered(socket, "r", false)?;
    let sender = BenchBusClient::connect_registered(socket, "s", asks)?;
    let frames: Vec<Vec<u8>> = (0..THROUGHPUT).map(|n| message("r", &n.to_string())).collect();
    let batches: Vec<(usize, Vec<u8>)> =
        frames.chunks(128).map(|part| (part.len(), part.concat())).collect();
    let all_there = thread::spawn(move || -> Result<Instant> {
        receiver.read_until(FrameCounts { messages: THROUGHPUT, accepted: 0 })?;
        Ok(Instant::now())
    });
    let start = Instant::now();
    let mut writing = sender.stream.try_clone()?;
    let mut reading = sender;
    let (room, granted) = sync_channel::<usize>(WINDOW);
    // hermes-bus sends no `accepted`, so the window does not apply to it; only its socket buffer
    // slows the sender down.
    let answers = thread::spawn(move || -> Result<()> {
        let mut left = if asks { THROUGHPUT } else { 0 };
        while left > 0 {
            let heard = reading.read()?.accepted;
            left -= heard;
            if heard > 0 && room.send(heard).is_err() {
                break;
            }
        }
        Ok(())
    });
    let mut out: usize = 0;
    for (count, batch) in batches {
        while asks && out + count > WINDOW {
            out -= granted.recv().context("no answers any more")?;
        }
        writing.write_all(&batch)?;
        out += count;
    }
    drop(granted);
    let end = all_there.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    answers.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    Ok(end - start)
}

/// Measures one message at a time: each waits until the previous one is synced.
pub(crate) fn one_at_a_time(figures: &mut Figures) -> Result<()> {
    let daemon = BenchBusDaemon::start(BusImplementation::Angelia)?;
    let mut sender = BenchBusClient::connect_registered(&daemon.socket(), "s", true)?;
    let start = Instant::now();
    for number in 0..ALONE {
        sender.stream.write_all(&message("r", &number.to_string()))?;
        sender.read_until(FrameCounts { messages: 0, accepted: 1 })?;
    }
    let rate = ALONE as f64 / start.elapsed().as_secs_f64();
    figures.add("angelia: one at a time, msg/s", rate);
    Ok(())
}

/// Measures the latency at a hundred messages a second, from the sender's write to the receipt.
pub(crate) fn paced(figures: &mut Figures) -> Result<()> {
    for whose in BusImplementation::BOTH {
        let daemon = BenchBusDaemon::start(whose)?;
        let samples = delivery(&daemon, "p", Duration::from_millis(10))?;
        let name = whose.name();
        figures.add(&format!("{name}: 100 msg/s, p50 ms"), quantile(&samples, 0.50));
        figures.add(&format!("{name}: 100 msg/s, p99 ms"), quantile(&samples, 0.99));
        if whose == BusImplementation::Angelia {
            let samples = disk(&daemon, Duration::from_millis(10))?;
            figures.add("disk: 100 fdatasync/s, p50 ms", quantile(&samples, 0.50));
            figures.add("disk: 100 fdatasync/s, p99 ms", quantile(&samples, 0.99));
        }
    }
    Ok(())
}

/// Measures the disk alone: writes as many bytes as a message has into a preallocated file and
/// syncs them.
fn disk(daemon: &BenchBusDaemon, gap: Duration) -> Result<Vec<f64>> {
    let file = File::create(daemon.socket().with_file_name("disk"))?;
    file.write_all_at(&vec![0; 1024 * 1024], 0)?;
    file.sync_all()?;
    let mut samples = Vec::with_capacity(PACED);
    for number in 0..PACED as u64 {
        let start = Instant::now();
        file.write_all_at(&[b'x'; 330], number * 330)?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
        thread::sleep(gap.saturating_sub(start.elapsed()));
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// Measures a whole run of `angelia notify`, from its start to its exit.
pub(crate) fn notify(figures: &mut Figures) -> Result<()> {
    let daemon = BenchBusDaemon::start(BusImplementation::Angelia)?;
    for _ in 0..NOTIFIED {
        let start = Instant::now();
        daemon.notify("somebody", "hello")?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        figures.add("angelia: notify, ms", took);
    }
    Ok(())
}

/// Measures the latency of single messages. `run` makes the ids of two runs different, because a
/// repeated id would not be delivered.
fn delivery(daemon: &BenchBusDaemon, run: &str, gap: Duration) -> Result<Vec<f64>> {
    let socket = daemon.socket();
    let mut receiver = BenchBusClient::connect_registered(&socket, "paced", false)?;
    let mut sender = BenchBusClient::connect_registered(
        &socket,
        "pacer",
        daemon.implementation == BusImplementation::Angelia,
    )?;
    let mut samples = Vec::with_capacity(PACED);
    for number in 0..PACED {
        let frame = message("paced", &format!("{run}{number}"));
        let start = Instant::now();
        sender.stream.write_all(&frame)?;
        receiver.read_until(FrameCounts { messages: 1, accepted: 0 })?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
        thread::sleep(gap.saturating_sub(start.elapsed()));
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list"
    )]
    let place = (part * (sorted.len() - 1) as f64).round() as usize;
    sorted[place]
}

/// Measures two daemons alternately; one of them has an endpoint that has stopped reading and was
/// sent more than its queue can hold.
pub(crate) fn stalled(figures: &mut Figures) -> Result<()> {
    let [calm, troubled] = [
        BenchBusDaemon::start(BusImplementation::Angelia)?,
        BenchBusDaemon::start(BusImplementation::Angelia)?,
    ];
    let _stalled = BenchBusClient::connect_registered(&troubled.socket(), "stalled", false)?;
    let mut flood = BenchBusClient::connect(&troubled.socket())?;
    for number in 0..5000 {
        flood.stream.write_all(&message("stalled", &number.to_string()))?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    for turn in 0..4 {
        for (daemon, samples) in [&calm, &troubled].into_iter().zip(&mut samples) {
            let run = format!("turn{turn}-");
            samples.extend(delivery(daemon, &run, Duration::from_millis(2))?);
        }
    }
    let [calm, beside] = samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        quantile(&samples, 0.99)
    });
    figures.add("angelia: nobody stalled, p99 ms", calm);
    figures.add("angelia: one stalled, p99 ms", beside);
    Ok(())
}

pub(crate) fn many_endpoints(figures: &mut Figures) -> Result<()> {
    raise_limits()?;
    let daemon = BenchBusDaemon::start(BusImplementation::Angelia)?;
    figures.add("angelia: idle, MB", daemon.memory()?);
    let mut held = Vec::with_capacity(ENDPOINTS);
    for number in 0..ENDPOINTS {
        held.push(BenchBusClient::connect_registered(
            &daemon.socket(),
            &format!("endpoint-{number}"),
            true,
        )?);
    }
    figures.add("angelia: 10,000 endpoints, MB", daemon.memory()?);
    Ok(())
}

fn raise_limits() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}
