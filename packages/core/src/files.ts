// Files that several `@osmosis` packages write. Not part of the promised API: names here may change
// in any version.
export { syncFolder, writeFileAtomically, type AtomicWriteOptions } from './files/atomic-write.ts'
