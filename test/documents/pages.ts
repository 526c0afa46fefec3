import { documents } from '../repository/documents.ts'

/** A document, or a part of one, that is read from top to bottom. */
export interface Page {
  readonly document: string
  /** Its only heading that is about this. */
  readonly part?: string
  /** What the reader has made before the page, or the part of it, begins. */
  readonly workspace: 'an empty folder' | 'a new workspace' | 'this repository'
  /** Another document, whose files the reader has. */
  readonly filesOf?: string
  /** A program of ours that the reader has written, and where; with the grader beside it. */
  readonly migrated?: { readonly program: string; readonly to: string }
  /**
   * The commands that run in processes of their own, as for users: all, or those with these words. The others run in the
   * process of the test, where a module keeps its state from one command to the next.
   */
  readonly processes?: 'all' | { readonly words: string }
  /** The runs that there are, by their names. */
  readonly runs?: readonly string[]
}

export const pages: readonly Page[] = [
  {
    document: 'README.md',
    part: 'From an empty folder',
    workspace: 'an empty folder',
    processes: 'all',
  },
  { document: 'README.md', part: 'Your agent as a rollout', workspace: 'a new workspace' },
  {
    document: 'docs/get-started/quickstart.md',
    workspace: 'an empty folder',
    processes: 'all',
  },
  {
    document: 'docs/frameworks/index.md',
    workspace: 'an empty folder',
    migrated: {
      program: 'packages/openai-agents/test/migration/after.ts',
      to: 'rollouts/calculator/main.ts',
    },
  },
  { document: 'docs/guides/workflows.md', workspace: 'a new workspace' },
  { document: 'docs/guides/graders.md', workspace: 'a new workspace' },
  {
    document: 'docs/guides/evaluation.md',
    workspace: 'a new workspace',
    // The policy of the workspace counts the attempts at a row, from one in every run.
    processes: { words: '--n 6' },
  },
  { document: 'docs/guides/datasets.md', workspace: 'a new workspace' },
  { document: 'docs/guides/structured-output.md', workspace: 'a new workspace' },
  { document: 'docs/guides/concurrency.md', workspace: 'a new workspace' },
  { document: 'docs/guides/agent-loop.md', workspace: 'an empty folder' },
  { document: 'docs/training/index.md', workspace: 'an empty folder' },
  { document: 'packages/create/README.md', workspace: 'an empty folder' },
  { document: 'docs/guides/reading-runs.md', workspace: 'a new workspace', runs: ['first'] },
  { document: 'docs/guides/trajectories.md', workspace: 'a new workspace', runs: ['first'] },
  {
    document: 'docs/guides/models.md',
    workspace: 'a new workspace',
    filesOf: 'docs/guides/workflows.md',
    runs: ['first'],
  },
  {
    document: 'docs/guides/commands.md',
    workspace: 'a new workspace',
    filesOf: 'docs/guides/agent-loop.md',
    // One of them starts npm, and has to find that of the reader.
    processes: 'all',
  },
  { document: 'packages/cli/README.md', workspace: 'a new workspace' },
  {
    document: 'packages/agent-loop/README.md',
    workspace: 'an empty folder',
    filesOf: 'docs/guides/agent-loop.md',
  },
  ...documents
    .filter((document) => document.startsWith('examples/'))
    .map((document): Page => ({ document, workspace: 'this repository', processes: 'all' })),
]

/** Why a command is parsed by `document-commands.test.ts`, and not run here; undefined for all others. */
export function reasonNotToRun(command: string): string | undefined {
  if (command.includes(' --interactive')) return 'a person answers: interactive.test.ts of the cli'
  if (command.includes(' --register')) return 'asks the platform: serve-registration.test.ts'
  if (command.startsWith('docker ')) return 'asks a daemon: docker-sandbox.test.ts'
  if (command.startsWith('npm install ')) return 'installs: guides.test.ts, and the packed packages'
  if (/^npx (?:-y pnpm@12 )?(?:install|demo|test|run|changeset|exec vitest)\b/.test(command)) {
    return 'a script of this repository: demo.test.ts, and what runs this'
  }
  return command === 'bash .ci/run' ? 'runs this' : undefined
}
