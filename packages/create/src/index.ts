export { type Framework, frameworkNames, frameworks } from './frameworks.ts'
export { askFramework, main } from './main.ts'
export { type ExtendedManifest, extendedManifest } from './manifest.ts'
export {
  examples,
  exampleFiles,
  existingRolloutFiles,
  rolloutNameProblem,
  ScaffoldError,
  failingAttempt,
  type Example,
  type Files,
  rolloutFiles,
  workspaceFiles,
  writeNewFiles,
} from './scaffold.ts'
export {
  install,
  type PackageManager,
  packageManagerOf,
  packageManagers,
} from './package-manager.ts'
