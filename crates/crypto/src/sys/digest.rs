//! Hash states on the stack, and the chaining values from which HMAC restarts them.

use aws_lc_sys as lc;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::hash::Hash;

/// A hash in progress, wiped on drop.
pub(crate) struct Running {
    hash: Hash,
    state: State,
}

/// The chaining value of a hash after exactly one block: what HMAC keeps of its key.
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Chain([u64; 8]);

/// SHA-384 is SHA-512 with another initial value.
enum State {
    Md5(lc::MD5_CTX),
    Sha1(lc::SHA_CTX),
    Sha256(lc::SHA256_CTX),
    Sha512(lc::SHA512_CTX),
}

impl Running {
    /// A hash of no octets.
    pub(crate) fn new(hash: Hash) -> Self {
        // SAFETY: the contexts are plain integers, for which zeros are valid; each initialiser
        // writes only its own context and cannot fail.
        let state = unsafe {
            match hash {
                Hash::Md5 => {
                    let mut ctx = core::mem::zeroed();
                    lc::MD5_Init(&raw mut ctx);
                    State::Md5(ctx)
                }
                Hash::Sha1 => {
                    let mut ctx = core::mem::zeroed();
                    lc::SHA1_Init(&raw mut ctx);
                    State::Sha1(ctx)
                }
                Hash::Sha256 => {
                    let mut ctx = core::mem::zeroed();
                    lc::SHA256_Init(&raw mut ctx);
                    State::Sha256(ctx)
                }
                Hash::Sha384 => {
                    let mut ctx = core::mem::zeroed();
                    lc::SHA384_Init(&raw mut ctx);
                    State::Sha512(ctx)
                }
                Hash::Sha512 => {
                    let mut ctx = core::mem::zeroed();
                    lc::SHA512_Init(&raw mut ctx);
                    State::Sha512(ctx)
                }
            }
        };
        Self { hash, state }
    }

    /// A hash after the one block that `chain` stands for.
    pub(crate) fn resume(hash: Hash, chain: &Chain) -> Self {
        let h = &chain.0;
        let short = |at: usize| h[at] as u32;
        let state = match hash {
            Hash::Md5 => State::Md5(lc::MD5_CTX {
                h: core::array::from_fn(short),
                Nl: 512,
                Nh: 0,
                data: [0; 64],
                num: 0,
            }),
            Hash::Sha1 => State::Sha1(lc::SHA_CTX {
                h: core::array::from_fn(short),
                Nl: 512,
                Nh: 0,
                data: [0; 64],
                num: 0,
            }),
            Hash::Sha256 => State::Sha256(lc::SHA256_CTX {
                h: core::array::from_fn(short),
                Nl: 512,
                Nh: 0,
                data: [0; 64],
                num: 0,
                md_len: 32,
            }),
            Hash::Sha384 | Hash::Sha512 => State::Sha512(lc::SHA512_CTX {
                h: *h,
                Nl: 1024,
                Nh: 0,
                p: [0; 128],
                num: 0,
                md_len: hash.len() as core::ffi::c_uint,
            }),
        };
        Self { hash, state }
    }

    /// The chaining value. The hash must have taken exactly one block.
    pub(crate) fn chain(&self) -> Chain {
        let mut chain = Chain([0; 8]);
        let copy_short = |to: &mut [u64; 8], from: &[u32]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = u64::from(*from);
            }
        };
        let (bits, block) = match &self.state {
            State::Md5(ctx) => {
                copy_short(&mut chain.0, &ctx.h);
                (u64::from(ctx.Nl), 512)
            }
            State::Sha1(ctx) => {
                copy_short(&mut chain.0, &ctx.h);
                (u64::from(ctx.Nl), 512)
            }
            State::Sha256(ctx) => {
                copy_short(&mut chain.0, &ctx.h);
                (u64::from(ctx.Nl), 512)
            }
            State::Sha512(ctx) => {
                chain.0 = ctx.h;
                (ctx.Nl, 1024)
            }
        };
        assert_eq!(bits, block, "a chaining value after other than one block");
        chain
    }

    /// Adds octets.
    pub(crate) fn update(&mut self, octets: &[u8]) {
        let (data, len) = (octets.as_ptr().cast(), octets.len());
        // SAFETY: `data` and `len` are one slice; the contexts were initialised, their `num` is
        // below the block length; the functions cannot fail.
        unsafe {
            match &mut self.state {
                State::Md5(ctx) => lc::MD5_Update(ctx, data, len),
                State::Sha1(ctx) => lc::SHA1_Update(ctx, data, len),
                State::Sha256(ctx) => lc::SHA256_Update(ctx, data, len),
                State::Sha512(ctx) => lc::SHA512_Update(ctx, data, len),
            };
        }
    }

    /// Writes the hash to the front of `out`.
    pub(crate) fn finish(mut self, out: &mut [u8; 64]) {
        let to = out.as_mut_ptr();
        // SAFETY: `to` has room for the longest output, 64 octets; the contexts were initialised.
        unsafe {
            match (&mut self.state, self.hash) {
                (State::Md5(ctx), _) => lc::MD5_Final(to, ctx),
                (State::Sha1(ctx), _) => lc::SHA1_Final(to, ctx),
                (State::Sha256(ctx), _) => lc::SHA256_Final(to, ctx),
                (State::Sha512(ctx), Hash::Sha384) => lc::SHA384_Final(to, ctx),
                (State::Sha512(ctx), _) => lc::SHA512_Final(to, ctx),
            };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match &mut self.state {
            State::Md5(ctx) => (ctx.h.zeroize(), ctx.data.zeroize()),
            State::Sha1(ctx) => (ctx.h.zeroize(), ctx.data.zeroize()),
            State::Sha256(ctx) => (ctx.h.zeroize(), ctx.data.zeroize()),
            State::Sha512(ctx) => (ctx.h.zeroize(), ctx.p.zeroize()),
        };
    }
}
