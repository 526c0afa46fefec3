// How files are written, owned and removed.
export { AppendedFile } from './files/appended-file.ts'
export { syncFolder, writeFileAtomically, type AtomicWriteOptions } from './files/atomic-write.ts'
export { failedWrite, namedFullDisk } from './files/failed-write.ts'
export {
  FolderLock,
  ownerOf,
  type FolderLockOptions,
  type LockOwner,
} from './files/lock/folder-lock.ts'
export { type ProcessLock } from './files/lock/process-lock.ts'
export { readLines, type FileLine } from './files/json-lines.ts'
export { removeTree } from './files/remove-tree.ts'
export { readTextLines, utf8Text, withoutByteOrderMark, type TextLine } from './files/text-lines.ts'
export { WriteGroups } from './files/write-groups.ts'
