import { spawn } from 'node:child_process'

import { environment, workingFolder } from './surroundings.ts'

const openers: Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}

/** Opens a URL. Does nothing on a machine without a browser: callers also print the URL. */
export function openBrowser(url: string): void {
  const [command, ...args] = openers[process.platform] ?? ['xdg-open']
  const child = spawn(command, [...args, url], {
    cwd: workingFolder(),
    env: environment(),
    stdio: 'ignore',
    detached: true,
  })
  child.on('error', () => {})
  child.unref()
}
