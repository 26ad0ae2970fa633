//! How the dialling end finds an accepting one on a server.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use super::contender::Contender;
use super::lines::{Answer, Hello, Purpose, hear, say};
use super::token::Token;
use crate::wire::{Done, Order};

/// How long a server may take until it listens: its pod runs, and its program begins.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// The longest that an order takes, by far.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Where accepting ends are.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
}

/// An accepting end on a server.
#[derive(Debug)]
pub(crate) struct Remote {
    orders: TcpStream,
    answers: BufReader<TcpStream>,
    /// What went wrong when an order was sent: told when its answer is asked for.
    broken: Option<anyhow::Error>,
}

impl Server {
    /// An accepting end that takes messages of `bytes`, and the connection to it.
    pub(crate) fn meet(&self, contender: Contender, bytes: usize) -> Result<(Remote, TcpStream)> {
        let orders = self.dial(Purpose::Orders { contender, bytes })?;
        orders.set_read_timeout(Some(SILENCE_MAX))?;
        let mut answers = BufReader::new(orders.try_clone()?);
        let number = match hear(&mut answers)? {
            Some(Answer::Waiting { number }) => number,
            other => bail!("the server says {other:?} instead of where to connect"),
        };
        orders.set_nodelay(true)?;
        let data = self.dial(Purpose::Data { number })?;
        data.set_nodelay(true)?;
        data.set_nonblocking(true)?;
        Ok((Remote { orders, answers, broken: None }, data))
    }

    /// The run is over.
    pub(crate) fn stop(&self) -> Result<()> {
        let stream = self.dial(Purpose::Stop)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        // Its answer is that it has heard.
        hear::<Answer>(&mut BufReader::new(stream)).map(|_| ())
    }

    fn dial(&self, purpose: Purpose) -> Result<TcpStream> {
        let until = Instant::now() + PATIENCE;
        let mut stream = loop {
            match TcpStream::connect_timeout(&self.address, SILENCE_MAX) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < until => std::thread::sleep(BETWEEN_TRIES),
                Err(error) => return Err(error).with_context(|| format!("connecting to {}", self.address)),
            }
        };
        say(&mut stream, &Hello { token: self.token.text().to_owned(), purpose })?;
        Ok(stream)
    }
}

impl Remote {
    pub(crate) fn order(&mut self, order: Order) {
        self.broken = say(&mut self.orders, &order).err();
    }

    /// The answer to the last order, or to the connection. It is timed when it is here: half a round trip late.
    pub(crate) fn done(&mut self) -> Result<Done> {
        if let Some(broken) = self.broken.take() {
            return Err(broken.context("ordering an end on the server"));
        }
        let began = Instant::now();
        match hear(&mut self.answers).context("hearing from the server")? {
            Some(Answer::Done { wrong }) => {
                Ok(Done { began, ended: Instant::now(), latencies: Vec::new(), wrong })
            }
            Some(Answer::Failed { why }) => Err(anyhow!("on the server: {why}")),
            other => bail!("the server says {other:?} instead of how it went"),
        }
    }
}
