export { syncFolder, writeFileAtomically, type AtomicWriteOptions } from './files/atomic-write.ts'
