#[path = "../../zref.rs"]
mod zref;
use z10x::{models::*, reader::ZTensorReader, writer::ZTensorWriter};
use zref::*;
fn dt(x: &str) -> DType { serde_json::from_value(json!(x)).unwrap() }
macro_rules! by { ($d:expr, $m:ident, $r:expr, $n:expr) => { match $d { DType::Float64 => f!($m,f64,$r,$n), DType::Float32 => f!($m,f32,$r,$n), DType::Int64=>f!($m,i64,$r,$n), DType::Int32=>f!($m,i32,$r,$n),DType::Int16=>f!($m,i16,$r,$n),DType::Int8=>f!($m,i8,$r,$n),DType::Uint64=>f!($m,u64,$r,$n),DType::Uint32=>f!($m,u32,$r,$n),DType::Uint16=>f!($m,u16,$r,$n),DType::Uint8=>f!($m,u8,$r,$n), _=>Ok(b"untyped".to_vec()) } } }
macro_rules! f { (csr,$t:ty,$r:expr,$n:expr) => { $r.read_csr_tensor::<$t>($n).map(|c| { let mut v=le(&c.indptr); v.extend(le(&c.indices)); v.extend((c.values.len() as u64).to_le_bytes()); v }) };
 (coo,$t:ty,$r:expr,$n:expr) => { $r.read_coo_tensor::<$t>($n).map(|c| { let mut v: Vec<u8>=c.indices.iter().flat_map(|i| le(i)).collect(); v.extend((c.values.len() as u64).to_le_bytes()); v }) } }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "make" => {
            let sp = load(&a[2]);
            let mut w = ZTensorWriter::create(&a[3]).unwrap();
            for it in sp.items() {
                let e = if it["enc"] == "zstd" { Encoding::Zstd } else { Encoding::Raw };
                let c = if it["sum"] == "crc32c" { ChecksumAlgorithm::Crc32c } else { ChecksumAlgorithm::None };
                let (n, sh, d) = (s(&it["name"]), u64s(&it["shape"]), dt(s(&it["dtype"])));
                let r = match it["kind"].as_str() {
                    Some("csr") => w.add_csr_tensor(n, sh, d, sp.bytes(&it["values"]), u64s(&it["indices"]), u64s(&it["indptr"]), e, c),
                    Some("coo") => w.add_coo_tensor(n, sh, d, sp.bytes(&it["values"]), u64s(&it["coords"]), e, c),
                    _ => w.add_tensor(n, sh, d, e, sp.bytes(&it["data"]), c) };
                if let Err(e) = r { println!("add {}: {:?}", it["name"], e); std::process::exit(1) }
            }
            println!("{}", w.finalize().unwrap());
        }
        m => {
            let r = if m == "mmap" { None } else { Some(ZTensorReader::open(&a[2])) };
            let mut r = match r { Some(Ok(r)) => r, Some(Err(e)) => { println!("{}", json!({"open": format!("{:?}", e)})); return }, None => unreachable!() };
            let man = r.manifest.clone();
            let ts: Vec<J> = man.tensors.iter().map(|(n, t)| {
                let rd = if t.format == "dense" { bytes_or_err(|| r.read_tensor(n)) } else { json!(null) };
                let typed = if t.format == "sparse_csr" { bytes_or_err(|| by!(t.dtype, csr, r, n)) } else if t.format == "sparse_coo" { bytes_or_err(|| by!(t.dtype, coo, r, n)) } else { json!(null) };
                let cs: Vec<J> = t.components.iter().map(|(k, c)| { let x = bytes_or_err(|| r.read_component(c));
                    json!({"role": k, "offset": c.offset, "length": c.length, "encoding": c.encoding.map(|e| format!("{:?}", e).to_lowercase()), "digest": c.digest, "read": x}) }).collect();
                json!({"name": n, "dtype": t.dtype.to_string_key(), "shape": t.shape, "format": t.format, "read": rd, "typed": typed, "components": cs})
            }).collect();
            println!("{}", json!({"open": "ok", "version": man.version, "generator": man.generator, "attributes": hex::encode(serde_cbor::to_vec(&man.attributes).unwrap()), "tensors": ts}));
        }
    }
}
