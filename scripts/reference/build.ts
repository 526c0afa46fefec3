// Writes the reference of the API from the doc comments of all public entry points, into docs/public/api.
// A doc comment with a link that leads nowhere fails the build.
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { Application, type ProjectReflection } from 'typedoc'

interface Manifest {
  name: string
  exports: Readonly<Record<string, string>>
  publishConfig: { exports: Readonly<Record<string, unknown>> }
}

/** Entries for the packages of this workspace: users import none of them. */
const reserved =
  /^@osmosis\/(core\/(http|tracing|workflow)|protocol(\/.*)?|server\/(child|execution|protocols)|controller\/answers)$/

const root = path.resolve(import.meta.dirname, '../..')
const entries = new Map(
  globSync('packages/*/package.json', { cwd: root }).flatMap((file) => {
    const text = readFileSync(path.join(root, file), 'utf8')
    const { name, exports, publishConfig } = JSON.parse(text) as Manifest
    return Object.entries(exports)
      .filter(([entry, source]) => source.endsWith('.ts') && entry in publishConfig.exports)
      .map(
        ([entry, source]) =>
          [path.join(root, path.dirname(file), source), path.posix.join(name, entry)] as const,
      )
      .filter(([, specifier]) => !reserved.test(specifier))
  }),
)

const application = await Application.bootstrap({
  name: 'Osmosis SDK for TypeScript',
  entryPoints: [...entries.keys()],
  tsconfig: path.join(import.meta.dirname, 'tsconfig.json'),
  readme: 'none',
  skipErrorChecking: true, // the types are checked in one program, with those of the tests
  excludeExternals: true, // what frameworks' classes inherit is in their own references
  excludeInternal: true,
  excludePrivate: true,
  gitRevision: 'main',
  treatWarningsAsErrors: true,
})
const project = await application.convert()
if (project === undefined) process.exit(1)
nameModules(project)
application.validate(project)
await application.generateDocs(project, path.join(root, 'docs/public/api'))
if (application.logger.hasErrors() || application.logger.hasWarnings()) process.exitCode = 1

/** Modules go by what one imports. */
function nameModules(whole: ProjectReflection): void {
  for (const module of whole.children ?? []) {
    const [source] = module.sources ?? []
    module.name = entries.get(source?.fullFileName ?? '') ?? module.name
  }
}
