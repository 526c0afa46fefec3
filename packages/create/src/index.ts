export { askFramework, isInteractive } from './ask.ts'
export { type Framework, frameworkNames, frameworks, isFramework } from './frameworks.ts'
export { main } from './main.ts'
export { type ExtendedManifest, extendedManifest } from './manifest.ts'
export { rolloutNameProblem } from './names.ts'
export {
  install,
  type PackageManager,
  packageManagerOf,
  packageManagers,
} from './package-manager.ts'
export { ScaffoldError } from './scaffold-error.ts'
export { failingAttempt, type Files, rolloutFiles, workspaceFiles } from './templates.ts'
export { writeNewFiles } from './write-files.ts'
