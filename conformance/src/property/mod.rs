//! Values made from a JSON Schema.

pub mod example;
