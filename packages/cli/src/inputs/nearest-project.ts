import { existsSync } from 'node:fs'
import path from 'node:path'

/** The command that starts a workspace: in the project of this folder, if there is one, else a new one. */
export function howToStart(folder: string): string {
  return nearestPackage(folder) === undefined
    ? 'npm create @osmosis@latest'
    : 'npx osmosis rollout init <name>'
}

/** The nearest folder, this one or above, with a package.json. */
export function nearestPackage(folder: string): string | undefined {
  return nearestWith('package.json', folder)
}

/** The nearest folder, this one or above, with a file of this name. */
export function nearestWith(file: string, folder: string): string | undefined {
  if (existsSync(path.join(folder, file))) return folder
  const above = path.dirname(folder)
  return above === folder ? undefined : nearestWith(file, above)
}
