//! Simulated platforms from outside: their material, and what they quote.

mod installation;
mod material;
mod nitro;
mod tdx;
