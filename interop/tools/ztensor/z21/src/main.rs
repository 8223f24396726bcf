#[path = "../../zref.rs"]
mod zref;
use zref::*;
use ztensor::{*, format::cbor, read};
fn dt(x: &str) -> DType { x.parse().unwrap() }
fn cv(h: &str) -> cbor::Value { cbor::decode(&hex::decode(h).unwrap()).unwrap() }
fn ch(v: &cbor::Value) -> String { hex::encode(cbor::encode(v).unwrap()) }
fn algo(x: &J) -> DigestAlgorithm { if x == "sha256" { DigestAlgorithm::Sha256 } else { DigestAlgorithm::Xxh3 } }
fn fail<T>(r: Result<T>) -> T { r.unwrap_or_else(|e| { println!("ERR {e:?}"); std::process::exit(1) }) }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "make" | "append" => {
            let sp = load(&a[2]);
            let mut o = Writer::options().canonical(sp.j["canonical"].as_bool().unwrap_or(true) && a[1] != "append");
            if let Some(x) = sp.j["align"].as_u64() { o = o.align(x) }
            let mut w = fail(if a[1] == "append" { o.append(&a[3]) } else { o.create(&a[3]) });
            if let Some(h) = sp.j["attributes"].as_str() { w.set_attributes(cv(h)) }
            for sh in sp.j["shards"].as_array().unwrap_or(&vec![]) {
                let id = fail(read::shard_identity(s(&sh["path"]), algo(&sh["algo"])));
                fail(w.add_shard(s(&sh["name"]), &id));
            }
            for it in sp.items() {
                let n = s(&it["name"]);
                if let Some(l) = it["link"].as_str() { // link: path of shard file, shard: name
                    let m = fail(read::manifest_of(l)).unwrap();
                    fail(w.link(n, fail(m.object(it["object"].as_str().unwrap_or(n))), s(&it["shard"])));
                    continue;
                }
                let parts = it["parts"].as_array().unwrap();
                let bufs: Vec<Vec<u8>> = parts.iter().map(|p| if p["data"].is_array() { sp.bytes(&p["data"]) } else { vec![] }).collect();
                let r = w.object(n, |mut b| {
                    b = b.shape(u64s(&it["shape"])).layout(it["layout"].as_str().unwrap_or("dense"));
                    if let Some(h) = it["attributes"].as_str() { b = b.attributes(cv(h)) }
                    for (p, buf) in parts.iter().zip(bufs.iter()) {
                        b = b.part(s(&p["name"]), |mut q| {
                            q = q.dtype(dt(s(&p["dtype"])));
                            if let Some(t) = p["type"].as_str() { q = q.logical(t) }
                            if let Some(t) = p["encoding"].as_str() { q = q.encoding(t) }
                            if let Some(t) = p["digest"].as_str() { q = q.digest(t) }
                            if p["external"].is_array() { let e = u64s(&p["external"]); q.external(s(&p["shard"]), e[0]..e[0] + e[1]) } else { q.bytes(buf) }
                        });
                    }
                    b
                });
                fail(r);
            }
            println!("{}", fail(w.finish()));
        }
        "identity" => { let i = fail(read::shard_identity(&a[2], if a[3] == "sha256" { DigestAlgorithm::Sha256 } else { DigestAlgorithm::Xxh3 })); println!("{} {}", i.size, i.digest) }
        "dump" => println!("{}", dump(&a)),
        "judge" => { // a file a line, and a line for each
            std::panic::set_hook(Box::new(|_| ()));
            for file in std::io::stdin().lines() {
                let a = vec![String::new(), String::new(), file.unwrap()];
                println!("{}", std::panic::catch_unwind(|| dump(&a)).unwrap_or_else(|_| json!({"open": "PANIC"})));
            }
        }
        _ => {}
    }
}

/// What the crate makes of the file a[2]; its shards are found as a[3] says.
fn dump(a: &[String]) -> J {
    let mut o = Source::options();
    if a.len() > 3 { o = if a[3] == "scan" { o.resolver(fail(read::DirectoryResolver::scan(&a[4]))) } else { o.resolver(read::cas(a[4].clone())) } }
    let man = match read::manifest_of(&a[2]) { Ok(m) => m, Err(e) => return json!({"open": format!("{e:?}")}) };
    let canon = read::canonical_violations(&a[2]).map_err(|e| format!("{e:?}"));
    let cd = man.as_ref().map(|m| m.content_digest(DigestAlgorithm::Sha256).unwrap_or_else(|e| format!("{e:?}")));
    let cdx = man.as_ref().map(|m| m.content_digest(DigestAlgorithm::Xxh3).unwrap_or_else(|e| format!("{e:?}")));
    let src = o.open(&a[2]);
    let mut top = json!({"manifest": man.is_some(), "content_digest": cd, "content_digest_xxh3": cdx, "canonical_violations": canon.as_ref().ok()});
    if let Some(m) = &man {
        top["attributes"] = json!(m.attributes.as_ref().map(ch));
        top["shards"] = json!(m.shards.iter().map(|(k, v)| json!({"name": k, "size": v.size, "digest": v.digest})).collect::<Vec<_>>());
        top["objects"] = json!(m.objects.iter().map(|(n, ob)| json!({"name": n, "shape": ob.shape, "layout": ob.layout, "attributes": ob.attributes.as_ref().map(ch),
            "parts": ob.parts.iter().map(|(k, p)| json!({"name": k, "dtype": p.dtype.as_str(), "type": p.logical, "offset": p.blob.offset, "length": p.blob.length, "shard": p.blob.shard, "encoding": p.encoding, "decoded": p.decoded_size(), "digest": p.digest})).collect::<Vec<_>>()})).collect::<Vec<_>>());
    }
    match src {
        Err(e) => { top["open"] = json!(format!("{e:?}")); }
        Ok(src) => {
            top["open"] = json!("ok");
            top["verify_shards"] = json!(format!("{:?}", src.verify_shards()));
            top["tensors"] = json!(src.tensors().map(|t| {
                let csr = if t.layout() == "zt.sparse_csr/1" { match ztensor_compat::csr::read(&t) { Ok(c) => json!({"rows": c.rows, "cols": c.cols, "nnz": c.indices.len(), "indptr": sha(&le(&c.indptr)), "indices": sha(&le(&c.indices))}), Err(e) => json!({"err": format!("{e:?}")}) } } else { json!(null) };
                json!({"name": t.name(), "csr": csr, "parts": t.parts().map(|pn| { let p = t.part(pn).unwrap(); let c = p.caps();
                    json!({"name": pn, "read": bytes_or_err(|| p.bytes().map(|b| b.into_owned())), "verify": format!("{:?}", p.verify()), "caps": {"map": c.map, "locate": c.locate, "evict": c.evict, "verify": c.verify, "alignment": c.alignment}}) }).collect::<Vec<_>>()})
            }).collect::<Vec<_>>());
        }
    }
    top
}
