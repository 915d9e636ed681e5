//! Values without parts: numbers, text, bytes and enum values.
//!
//! Takes a datum and a scalar type, writes its bytes, and returns whether it is the default of the type.
//! Never rounds, and never turns text into a number: a value that doesn't fit is an error with a next
//! step.

use super::Encoder;
use crate::json::{large, unlatin};
use crate::misfit::{AS_INT, AS_TEXT, Misfit, Put};
use crate::near::near;
use crate::protobuf::scalar::Scalar;
use crate::protobuf::schema::Enum;
use crate::protobuf::value::ProtobufValue;
use stoatflow_core::Datum;

impl Encoder<'_> {
    pub(super) fn word(&mut self, of: &Enum, datum: &Datum) -> Put<bool> {
        let number = match datum {
            Datum::Str(text) => match of.by_word.get(text.as_str()) {
                Some(number) => *number,
                None => {
                    let near = near(text.as_str(), of.words());
                    return Err(Misfit::new(format!(
                        "the enum {} has no '{}', {near}",
                        of.name,
                        text.as_str()
                    )));
                }
            },
            Datum::Int(number) => i32::try_from(*number)
                .map_err(|_| Misfit::new(format!("{number} does not fit into an enum")))?,
            other => return Err(Misfit::wanted(&format!("enum {}", of.name), other)),
        };
        self.signed(i64::from(number));
        Ok(number == 0)
    }

    #[allow(clippy::cast_sign_loss)] // two's complement
    fn signed(&mut self, number: i64) {
        self.varint(number as u64);
    }

    #[allow(clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(super) fn scalar(&mut self, scalar: Scalar, datum: &Datum) -> Put<bool> {
        match (scalar, datum) {
            (Scalar::Bool, Datum::Bool(truth)) => {
                self.out.push(u8::from(*truth));
                return Ok(!truth);
            }
            (Scalar::Float, Datum::Int(number)) => return self.float(*number as f64),
            (Scalar::Float, Datum::Float(number)) => return self.float(*number),
            (Scalar::Double, Datum::Int(number)) => return Ok(self.double(*number as f64)),
            (Scalar::Double, Datum::Float(number)) => return Ok(self.double(*number)),
            (Scalar::String { .. }, Datum::Str(text)) => return Ok(self.bytes(text.as_bytes())),
            (Scalar::Bytes, Datum::Bytes(bytes)) => return Ok(self.bytes(bytes)),
            (Scalar::Bytes, Datum::Opaque(_)) => {
                if let Some(value) = ProtobufValue::of(datum).filter(|value| value.is_bytes()) {
                    return Ok(self.bytes(value.bytes()));
                }
            }
            (Scalar::Bytes, Datum::Str(text)) if self.json => {
                let Some(bytes) = unlatin(text.as_str()) else {
                    return Err(
                        Misfit::new("the text holds characters that stand for no byte")
                            .hint("give bytes"),
                    );
                };
                return Ok(self.bytes(&bytes));
            }
            (Scalar::Uint64 | Scalar::Fixed64, Datum::Str(text)) if self.json => {
                if let Some(number) = large(text.as_str()) {
                    match scalar {
                        Scalar::Uint64 => self.varint(number),
                        _ => self.out.extend_from_slice(&number.to_le_bytes()),
                    }
                    return Ok(false);
                }
            }
            (scalar, Datum::Int(number)) if scalar.is_whole() => {
                return self.whole(scalar, *number);
            }
            _ => {}
        }
        let misfit = Misfit::wanted(scalar.word(), datum);
        Err(match (scalar, datum) {
            (Scalar::String { .. }, Datum::Int(_) | Datum::Float(_) | Datum::Bool(_)) => {
                misfit.hint(AS_TEXT)
            }
            (Scalar::Bytes, Datum::Str(_)) => misfit.hint("give bytes"),
            (scalar, Datum::Float(_)) if scalar.is_whole() => misfit.hint(AS_INT),
            (scalar, Datum::Str(text)) if scalar.is_whole() && self.json => {
                match large(text.as_str()) {
                    Some(number) => does_not_fit(scalar, number),
                    None => misfit,
                }
            }
            _ => misfit,
        })
    }

    #[allow(clippy::cast_sign_loss)] // checked, or two's complement
    fn whole(&mut self, scalar: Scalar, number: i64) -> Put<bool> {
        let fits = match scalar {
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => i32::try_from(number).is_ok(),
            Scalar::Uint32 | Scalar::Fixed32 => u32::try_from(number).is_ok(),
            Scalar::Uint64 | Scalar::Fixed64 => number >= 0,
            _ => true,
        };
        if !fits {
            return Err(does_not_fit(scalar, number));
        }
        match scalar {
            Scalar::Sint32 | Scalar::Sint64 => {
                self.varint(((number << 1) ^ (number >> 63)) as u64);
            }
            Scalar::Fixed32 | Scalar::Sfixed32 => {
                // The value fits into the lower half.
                self.out.extend_from_slice(&number.to_le_bytes()[..4]);
            }
            Scalar::Fixed64 | Scalar::Sfixed64 => {
                self.out.extend_from_slice(&number.to_le_bytes());
            }
            _ => self.signed(number),
        }
        Ok(number == 0)
    }

    #[allow(clippy::cast_possible_truncation)] // the schema says float
    fn float(&mut self, number: f64) -> Put<bool> {
        let short = number as f32;
        if short.is_infinite() && number.is_finite() {
            return Err(Misfit::new(format!("{number} does not fit into a float"))
                .hint("use a double in the message"));
        }
        self.out.extend_from_slice(&short.to_le_bytes());
        Ok(short.to_bits() == 0)
    }

    fn double(&mut self, number: f64) -> bool {
        self.out.extend_from_slice(&number.to_le_bytes());
        number.to_bits() == 0
    }

    fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        bytes.is_empty()
    }
}

#[cold]
fn does_not_fit(scalar: Scalar, number: impl std::fmt::Display) -> Misfit {
    Misfit::new(format!("{number} does not fit into {}", scalar.word()))
        .hint("use a wider type in the message, or a smaller number")
}
