import type { Arch } from '../../src/arch.ts'
import { noise } from './bytes.ts'

/** What a program prints. */
export interface Printed {
  readonly stdout: string
  readonly stderr?: string
}

interface Machine {
  /** e_machine of the ELF header. */
  readonly id: number
  /** Bytes of {@link write} and {@link exit}: the same for any operands. */
  readonly writeSize: number
  readonly exitSize: number
  /** Machine code of `write(fd, here + distance, length)`, where `here` is the code's own start. */
  write(fd: number, distance: number, length: number): Buffer
  /** Machine code of `exit(0)`. */
  exit(): Buffer
}

const X86_64: Machine = {
  id: 62,
  writeSize: 24,
  exitSize: 9,
  write: (fd, distance, length) =>
    Buffer.concat([
      Buffer.from([0xb8, ...u32(1)]), // mov eax, 1 (write)
      Buffer.from([0xbf, ...u32(fd)]), // mov edi, fd
      Buffer.from([0x48, 0x8d, 0x35, ...u32(distance - 17)]), // lea rsi, [rip + …]; rip is 17 bytes in
      Buffer.from([0xba, ...u32(length)]), // mov edx, length
      Buffer.from([0x0f, 0x05]), // syscall
    ]),
  exit: () =>
    Buffer.from([
      ...[0xb8, ...u32(60)], // mov eax, 60 (exit)
      ...[0x31, 0xff], // xor edi, edi
      ...[0x0f, 0x05], // syscall
    ]),
}

const AARCH64: Machine = {
  id: 183,
  writeSize: 20,
  exitSize: 12,
  write: (fd, distance, length) =>
    words(movz(8, 64), movz(0, fd), adr(1, distance - 8), movz(2, length), SUPERVISOR_CALL),
  exit: () => words(movz(8, 93), movz(0, 0), SUPERVISOR_CALL),
}

const MACHINES: Readonly<Record<Arch, Machine>> = { amd64: X86_64, arm64: AARCH64 }

/** Where the program is loaded, and what its segment is aligned to: the largest page size of Linux on arm64. */
const BASE = 0x400000
const PAGE = 0x10000
const HEADERS = 64 + 56

/**
 * A Linux program without libraries that prints its text and exits with 0.
 * @param padding bytes behind the program that are not loaded, to give it a real one's size
 */
export function tinyElf(arch: Arch, { stdout, stderr = '' }: Printed, padding = 0): Buffer {
  const machine = MACHINES[arch]
  const texts = [Buffer.from(stderr), Buffer.from(stdout)]
  const [errors, output] = [texts[0]?.length ?? 0, texts[1]?.length ?? 0]
  const data = 2 * machine.writeSize + machine.exitSize
  const program = Buffer.concat([
    machine.write(2, data, errors),
    machine.write(1, data + errors - machine.writeSize, output),
    machine.exit(),
    ...texts,
  ])
  return Buffer.concat([
    elfHeader(machine.id),
    programHeader(HEADERS + program.length),
    program,
    noise(`${arch} ${stdout}`, padding),
  ])
}

/** Elf64_Ehdr (elf(5)). */
function elfHeader(machine: number): Buffer {
  const header = Buffer.alloc(64)
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]) // 64 bits, little-endian, version 1
  header.writeUInt16LE(2, 16) // ET_EXEC
  header.writeUInt16LE(machine, 18)
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(BigInt(BASE + HEADERS), 24) // entry
  header.writeBigUInt64LE(64n, 32) // program headers
  header.writeUInt16LE(64, 52)
  header.writeUInt16LE(56, 54)
  header.writeUInt16LE(1, 56) // one of them
  header.writeUInt16LE(64, 58)
  return header
}

/** Elf64_Phdr (elf(5)) of one loaded segment that can be read and executed. */
function programHeader(size: number): Buffer {
  const header = Buffer.alloc(56)
  header.writeUInt32LE(1, 0) // PT_LOAD
  header.writeUInt32LE(5, 4) // PF_R | PF_X
  header.writeBigUInt64LE(BigInt(BASE), 16)
  header.writeBigUInt64LE(BigInt(BASE), 24)
  header.writeBigUInt64LE(BigInt(size), 32)
  header.writeBigUInt64LE(BigInt(size), 40)
  header.writeBigUInt64LE(BigInt(PAGE), 48)
  return header
}

/** Arm: `svc #0`. */
const SUPERVISOR_CALL = 0xd4000001

/** Arm: a number below 65536 into a register. */
function movz(register: number, value: number): number {
  return 0xd2800000 + value * 32 + register
}

/** Arm: the address that is `distance` bytes from this instruction into a register. */
function adr(register: number, distance: number): number {
  return 0x10000000 + (distance % 4) * 2 ** 29 + Math.floor(distance / 4) * 32 + register
}

function words(...instructions: readonly number[]): Buffer {
  return Buffer.from(instructions.flatMap(u32))
}

function u32(value: number): readonly number[] {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return [...bytes]
}
