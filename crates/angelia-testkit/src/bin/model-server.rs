//! The scripted model server as a process, for benchmarks and for trying agents by hand. Prints the
//! address it listens on and runs until its stdin ends.
//!
//! Usage: `model-server [ADDRESS]` (127.0.0.1:0 when none is given)

use std::io::{self, Write as _};

use angelia_testkit::model_server::ModelServer;

fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let server = ModelServer::listen(address.parse()?)?;
    // Nothing reads this process's request log, and a benchmark would fill the memory with it.
    server.set_recording(false);
    writeln!(io::stdout(), "{}", server.base_url())?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
