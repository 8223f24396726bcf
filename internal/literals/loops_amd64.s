//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// The eight windows are in R8 to R15, those of a in the lower four. AX is whatever is worked on, BX the shift that leaves
// eleven bits, CX and SI the tables, DX is free. DI counts the symbols of the batch.
//
// On the stack: where each window was loaded from at 0, where each quarter is written to at 64 and 72 (the first of
// each block), the symbols of the batch from 80 on.

// SYMBOL takes one symbol out of a window.
#define SYMBOL(window, table, lane) \
	SHRXQ BX, window, AX \
	MOVWLZX (table)(AX*2), AX \
	SHLXQ AX, window, window \
	MOVB AH, lane(SP)(DI*1)

// LOAD fills a window again: the zeros at its end are the bits that are gone, whole bytes of which move it back.
#define LOAD(window, off) \
	TZCNTQ window, window \
	MOVQ window, AX \
	ANDL $7, window \
	SHRQ $3, AX \
	NEGQ AX \
	ADDQ off(SP), AX \
	MOVQ AX, off(SP) \
	MOVQ (AX), AX \
	ORQ $1, AX \
	SHLXQ window, AX, window

// EIGHT takes symbol i of the round out of each window.
#define EIGHT(i) \
	SYMBOL(R8, CX, (80+i)) \
	SYMBOL(R9, CX, (112+i)) \
	SYMBOL(R10, CX, (144+i)) \
	SYMBOL(R11, CX, (176+i)) \
	SYMBOL(R12, SI, (208+i)) \
	SYMBOL(R13, SI, (240+i)) \
	SYMBOL(R14, SI, (272+i)) \
	SYMBOL(R15, SI, (304+i))

// OUT writes the batch of one stream.
#define OUT(lane, at, source) \
	MOVOU lane(SP), X0 \
	MOVOU (lane+16)(SP), X1 \
	LEAQ at, DI \
	MOVOU X0, (DI) \
	MOVOU X1, 16(DI) \
	PREFETCHT0 128(DI) \
	MOVQ source(SP), DI \
	PREFETCHT0 -256(DI)

// STREAM finds where a stream's window was loaded from.
#define STREAM(lanes, k, window, off) \
	MOVQ (lanes_streams+k*stream__size+stream_window)(lanes), window \
	MOVQ (lanes_streams+k*stream__size+stream_off)(lanes), DX \
	ADDQ lanes_in(lanes), DX \
	MOVQ DX, off(SP)

// BACK notes it.
#define BACK(lanes, k, window, off) \
	MOVQ window, (lanes_streams+k*stream__size+stream_window)(lanes) \
	MOVQ off(SP), DX \
	SUBQ lanes_in(lanes), DX \
	MOVQ DX, (lanes_streams+k*stream__size+stream_off)(lanes)

// func batches(a, b *lanes, n int)
TEXT ·batches(SB), NOSPLIT, $336-24
	MOVQ a+0(FP), AX
	MOVQ b+8(FP), BX
	STREAM(AX, 0, R8, 0)
	STREAM(AX, 1, R9, 8)
	STREAM(AX, 2, R10, 16)
	STREAM(AX, 3, R11, 24)
	STREAM(BX, 0, R12, 32)
	STREAM(BX, 1, R13, 40)
	STREAM(BX, 2, R14, 48)
	STREAM(BX, 3, R15, 56)
	MOVQ lanes_out(AX), DX
	ADDQ lanes_done(AX), DX
	MOVQ DX, 64(SP)
	MOVQ lanes_out(BX), DX
	ADDQ lanes_done(BX), DX
	MOVQ DX, 72(SP)
	MOVQ lanes_table(AX), CX
	MOVQ lanes_table(BX), SI

batch:
	MOVQ $53, BX
	XORL DI, DI

round:
	EIGHT(0)
	EIGHT(1)
	EIGHT(2)
	EIGHT(3)
	EIGHT(4)
	LOAD(R8, 0)
	LOAD(R9, 8)
	LOAD(R10, 16)
	LOAD(R11, 24)
	LOAD(R12, 32)
	LOAD(R13, 40)
	LOAD(R14, 48)
	LOAD(R15, 56)
	ADDQ $5, DI
	CMPQ DI, $30
	JNE  round

	MOVQ a+0(FP), AX
	MOVQ lanes_q(AX), AX
	LEAQ (AX)(AX*2), BX
	MOVQ 64(SP), DX
	OUT(80, (DX), 0)
	OUT(112, (DX)(AX*1), 8)
	OUT(144, (DX)(AX*2), 16)
	OUT(176, (DX)(BX*1), 24)
	ADDQ $30, 64(SP)
	MOVQ b+8(FP), AX
	MOVQ lanes_q(AX), AX
	LEAQ (AX)(AX*2), BX
	MOVQ 72(SP), DX
	OUT(208, (DX), 32)
	OUT(240, (DX)(AX*1), 40)
	OUT(272, (DX)(AX*2), 48)
	OUT(304, (DX)(BX*1), 56)
	ADDQ $30, 72(SP)
	DECQ n+16(FP)
	JNZ  batch

	MOVQ a+0(FP), AX
	MOVQ b+8(FP), BX
	BACK(AX, 0, R8, 0)
	BACK(AX, 1, R9, 8)
	BACK(AX, 2, R10, 16)
	BACK(AX, 3, R11, 24)
	BACK(BX, 0, R12, 32)
	BACK(BX, 1, R13, 40)
	BACK(BX, 2, R14, 48)
	BACK(BX, 3, R15, 56)
	MOVQ 64(SP), DX
	SUBQ lanes_out(AX), DX
	MOVQ DX, lanes_done(AX)
	MOVQ 72(SP), DX
	SUBQ lanes_out(BX), DX
	MOVQ DX, lanes_done(BX)
	RET

// JOIN takes two pairs of bytes of the word before DX, of which the second one comes first, adds their codes to the bits that R8 has gathered,
// R9 of them, and writes all of these; what is not a whole byte stays.
#define JOIN(second, first) \
	MOVWLZX second(SI)(DX*8), R11 \
	MOVWLZX first(SI)(DX*8), R12 \
	MOVL    (AX)(R11*4), R11 \
	MOVL    (AX)(R12*4), R12 \
	MOVL    R11, R13 \
	MOVL    R12, CX \
	SHRL    $8, R13 \
	SHRL    $8, CX \
	SHLXQ   R11, CX, CX \
	ADDL    R12, R11 \
	ORQ     R13, CX \
	MOVBLZX R11, R11 \
	SHLXQ   R9, CX, CX \
	ADDQ    R11, R9 \
	ORQ     CX, R8 \
	MOVQ    R8, (BX) \
	MOVQ    R9, CX \
	MOVQ    R9, R11 \
	SHRQ    $3, CX \
	ANDL    $0x38, R11 \
	ADDQ    CX, BX \
	SHRXQ   R11, R8, R8 \
	ANDL    $7, R9

// func words(pairs *[1 << 16]uint32, out, src *byte, n int) (at int, gathered, left uint64)
TEXT ·words(SB), NOSPLIT, $0-56
	MOVQ pairs+0(FP), AX
	MOVQ out+8(FP), BX
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), DX
	XORL R8, R8
	XORL R9, R9

word:
	JOIN(-2, -4)
	JOIN(-6, -8)
	DECQ DX
	JNZ  word

	SUBQ out+8(FP), BX
	MOVQ BX, at+32(FP)
	MOVQ R8, gathered+40(FP)
	MOVQ R9, left+48(FP)
	RET

// PUT adds the R12 bits of R11 to those that R8 has gathered, R9 of them, and writes all of these; what is not a whole byte stays.
#define PUT \
	SHLXQ R9, R11, R11 \
	ADDQ  R12, R9 \
	ORQ   R11, R8 \
	MOVQ  R8, (BX) \
	MOVQ  R9, CX \
	MOVQ  R9, R11 \
	SHRQ  $3, CX \
	ANDL  $0x38, R11 \
	ADDQ  CX, BX \
	SHRXQ R11, R8, R8 \
	ANDL  $7, R9

// EIGHTH puts the codes of eight bytes: at once where they are short enough, or else those of the second four first.
#define EIGHTH(i, long, done) \
	MOVQ (192+16*i)(SP), R12 \
	CMPQ R12, $56 \
	JHI  long \
	MOVQ (128+16*i)(SP), R11 \
	PUT \
done:

#define LONG(i, long, done) \
long: \
	MOVQ (8+16*i)(SP), R11 \
	MOVQ (64+8+16*i)(SP), R12 \
	PUT \
	MOVQ (16*i)(SP), R11 \
	MOVQ (64+16*i)(SP), R12 \
	PUT \
	JMP  done

// func vectors(codes *[256]uint16, out, src *byte, n int) (at int, gathered, left uint64)
TEXT ·vectors(SB), NOSPLIT, $256-56
	MOVQ         codes+0(FP), AX
	VMOVDQU64    (AX), Z8
	VMOVDQU64    64(AX), Z9
	VMOVDQU64    128(AX), Z10
	VMOVDQU64    192(AX), Z11
	VMOVDQU64    256(AX), Z12
	VMOVDQU64    320(AX), Z13
	VMOVDQU64    384(AX), Z14
	VMOVDQU64    448(AX), Z15
	MOVL         $64, AX
	VPBROADCASTW AX, Z16
	MOVL         $128, AX
	VPBROADCASTW AX, Z17
	MOVL         $0xfff, AX
	VPBROADCASTW AX, Z18
	MOVL         $0xffff, AX
	VPBROADCASTD AX, Z19
	MOVL         $0xffffffff, AX
	VPBROADCASTQ AX, Z20
	MOVQ         out+8(FP), BX
	MOVQ         src+16(FP), SI
	MOVQ         n+24(FP), DX
	SHLQ         $5, DX
	XORL         R8, R8
	XORL         R9, R9

vector:
	// Of each of 32 bytes the entry in the table, a quarter of which each of four looks covers.
	VPMOVZXBW -32(SI)(DX*1), Z0
	VPTESTMW  Z16, Z0, K1
	VPTESTMW  Z17, Z0, K2
	VMOVDQA64 Z0, Z1
	VMOVDQA64 Z0, Z2
	VMOVDQA64 Z0, Z3
	VPERMI2W  Z9, Z8, Z0
	VPERMI2W  Z11, Z10, Z1
	VPERMI2W  Z13, Z12, Z2
	VPERMI2W  Z15, Z14, Z3
	VPBLENDMW Z1, Z0, K1, Z0
	VPBLENDMW Z3, Z2, K1, Z2
	VPBLENDMW Z2, Z0, K2, Z0

	// Codes in Z0 and their lengths in Z1: of bytes, of two, and of four, of which the one behind comes first.
	VPSRLW  $12, Z0, Z1
	VPANDQ  Z18, Z0, Z0
	VPSRLD  $16, Z0, Z2
	VPSRLD  $16, Z1, Z3
	VPANDQ  Z19, Z0, Z0
	VPANDQ  Z19, Z1, Z1
	VPSLLVD Z3, Z0, Z0
	VPORQ   Z2, Z0, Z0
	VPADDD  Z3, Z1, Z1
	VPSRLQ  $32, Z0, Z2
	VPSRLQ  $32, Z1, Z3
	VPANDQ  Z20, Z0, Z0
	VPANDQ  Z20, Z1, Z1
	VPSLLVQ Z3, Z0, Z0
	VPORQ   Z2, Z0, Z0
	VPADDQ  Z3, Z1, Z1

	// Of eight in Z4 and Z5, as far as they have room in a word.
	VPSHUFD   $0x4e, Z0, Z2
	VPSHUFD   $0x4e, Z1, Z3
	VPSLLVQ   Z3, Z0, Z4
	VPORQ     Z2, Z4, Z4
	VPADDQ    Z3, Z1, Z5
	VMOVDQU64 Z0, 0(SP)
	VMOVDQU64 Z1, 64(SP)
	VMOVDQU64 Z4, 128(SP)
	VMOVDQU64 Z5, 192(SP)
	EIGHTH(3, long3, done3)
	EIGHTH(2, long2, done2)
	EIGHTH(1, long1, done1)
	EIGHTH(0, long0, done0)
	SUBQ $32, DX
	JNZ  vector

	VZEROUPPER
	SUBQ out+8(FP), BX
	MOVQ BX, at+32(FP)
	MOVQ R8, gathered+40(FP)
	MOVQ R9, left+48(FP)
	RET
	LONG(3, long3, done3)
	LONG(2, long2, done2)
	LONG(1, long1, done1)
	LONG(0, long0, done0)
