import type { Mutation } from './mutation.ts'

const opened = {
  file: 'packages/core/src/sandbox/regular-file.ts',
  tests: ['packages/core/test/sandbox/hostile-files.test.ts'],
}
const workFolder = { tests: ['packages/server/test/execution/work-folder.test.ts'] }

const container = { tests: ['packages/docker-sandbox/test/hostile-container.test.ts'] }

/** What the code of a model leaves behind, and disks that are full or do not answer. */
export const sandboxMutations: readonly Mutation[] = [
  {
    name: 'sandbox: a FIFO blocks a thread',
    from: 'flags | constants.O_NONBLOCK | constants.O_NOFOLLOW',
    to: 'flags | constants.O_NOFOLLOW',
    ...opened,
  },
  {
    name: 'sandbox: a FIFO with an open end is written to',
    from: 'if (!opened.isFile()) throw notRegular(file)',
    to: 'if (opened.isDirectory()) throw notRegular(file)',
    ...opened,
  },
  {
    name: 'sandbox: a link that changes leads outside',
    from: 'if (!isBelow(await realpath(folder), real)) throw outside(file)',
    to: 'if (real === file) throw outside(file)',
    ...opened,
  },
  {
    name: 'sandbox: a file that grows fills the memory',
    from: 'while (length <= maxBytes) {',
    to: 'while (size <= maxBytes) {',
    ...opened,
  },
  {
    name: 'sandbox: a file of the largest size is refused',
    from: 'while (length <= maxBytes) {',
    to: 'while (length < maxBytes) {',
    ...opened,
  },
  {
    name: 'artifacts: a folder that is a link leads outside',
    file: 'packages/server/src/execution/work-folder.ts',
    from: 'await openBelow(this.path, name, constants.O_RDONLY)',
    to: "await (await import('node:fs/promises')).open(path.join(this.path, name), 'r')",
    ...workFolder,
  },
  {
    name: 'artifacts: a deep folder remains',
    file: 'packages/protocol/src/files/remove-tree.ts',
    from: 'await rename(below, path.join(folder, randomUUID()))',
    to: 'await chmod(below, 0o700)',
    ...workFolder,
  },
  {
    name: 'full disk: eval run names no command that continues',
    file: 'packages/cli/src/command/output/output-files.ts',
    from: "if (!isOsmosisError(error) || error.code !== 'storage_error') return error",
    to: 'if (isOsmosisError(error)) return error',
    tests: ['packages/cli/test/full-disk.test.ts'],
  },
  {
    name: 'container: what a command started runs beside the judge',
    file: 'packages/docker-sandbox/src/docker-sandbox.ts',
    from: '[ $# -gt 1 ] || { kill -9 -1; exit 0; }',
    to: '[ $# -gt 1 ] || exit 0',
    ...container,
  },
  {
    name: 'container: a judge that failed has the code 0',
    file: 'packages/docker-sandbox/src/run-command.ts',
    from: 'exitCode: isKilled ? null : ExitCode',
    to: 'exitCode: isKilled ? null : 0',
    ...container,
  },
  {
    name: 'container: root has all capabilities',
    file: 'packages/docker-sandbox/src/start-container.ts',
    from: "CapDrop: ['ALL']",
    to: 'CapDrop: []',
    ...container,
  },
  {
    name: 'container: all runs have the same label',
    file: 'packages/docker-sandbox/src/start-container.ts',
    from: "'osmosis.run': settings.run",
    to: "'osmosis.run': 'all'",
    ...container,
  },
  {
    name: 'container: a read returns the beginning of a large file',
    file: 'packages/docker-sandbox/src/docker-sandbox.ts',
    from: 'if (end.stdout.truncated) throw tooLarge(file, maxBytes)',
    to: 'if (end.stdout.truncated) return end.stdout.bytes',
    ...container,
  },
  {
    name: 'full disk: a command whose result is lost succeeds',
    file: 'packages/server/src/containment/contain-user-code.ts',
    from: '(process.exitCode = exitCode || 1)',
    to: '(process.exitCode = exitCode || 0)',
    tests: ['packages/cli/test/process-end.test.ts'],
  },
]
