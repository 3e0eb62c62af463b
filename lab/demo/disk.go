package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The disk's layout: a GPT, as on Debian's own cloud images, with the boot loader in a BIOS boot partition and the
// root filesystem after it. All in sectors.
const (
	sectorSize = 512
	biosStart  = 2048
	biosLength = 6144
	rootStart  = biosStart + biosLength
	gptTail    = 2048 // left free at the end for the backup table, aligned
)

// grubDir is where Debian's grub-pc-bin keeps the boot loader for BIOS machines.
const grubDir = "/usr/lib/grub/i386-pc"

// buildDisk makes a bootable raw disk of size bytes at path, a sparse file, from the root filesystem in root. Nothing
// is mounted and no loop device is used: mke2fs copies the files, and the boot loader goes where it belongs by offset.
func buildDisk(ctx context.Context, path, root, work string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create the disk: %w", err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return fmt.Errorf("create the disk: %w", err)
	}
	rootLength := size/sectorSize - rootStart - gptTail
	table := fmt.Sprintf("label: gpt\nlabel-id: %s\n"+
		"disk14 : start=%d, size=%d, type=21686148-6449-6E6F-744E-656564454649\n"+
		"disk1 : start=%d, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n",
		rootUUID, biosStart, biosLength, rootStart, rootLength)
	sfdisk := command{name: "sfdisk", args: []string{"--quiet", path}, stdin: strings.NewReader(table)}
	if _, err := sfdisk.run(ctx); err != nil {
		return fmt.Errorf("partition the disk: %w", err)
	}
	// GRUB 2.06 reads neither of the two features; a fixed hash seed keeps the directories' layout the same.
	mke2fs := command{name: "mke2fs", args: []string{"-q", "-F", "-t", "ext4", "-L", "root", "-U", rootUUID, "-m", "1",
		"-O", "^metadata_csum_seed,^orphan_file", "-J", "size=64", "-d", root,
		"-E", fmt.Sprintf("offset=%d,hash_seed=%s,lazy_itable_init=0,lazy_journal_init=0", rootStart*sectorSize, rootUUID),
		path, fmt.Sprintf("%dk", rootLength*sectorSize/1024)}}
	if _, err := mke2fs.run(ctx); err != nil {
		return fmt.Errorf("make the root filesystem: %w", err)
	}
	if err := installGrub(ctx, file, work); err != nil {
		return fmt.Errorf("install the boot loader: %w", err)
	}
	return file.Close()
}

// installGrub does what grub-bios-setup would do on a mounted device.
func installGrub(ctx context.Context, disk io.WriterAt, work string) error {
	corePath := filepath.Join(work, "core.img")
	mkimage := command{name: "grub-mkimage", args: []string{"-O", "i386-pc", "-d", grubDir, "-o", corePath,
		// Without a device name GRUB takes the disk that it was started from.
		"-p", "(,gpt1)/boot/grub",
		"biosdisk", "part_gpt", "ext2", "normal", "linux", "serial", "terminal", "echo", "test", "configfile"}}
	if _, err := mkimage.run(ctx); err != nil {
		return err
	}
	core, err := os.ReadFile(corePath)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(filepath.Join(grubDir, "boot.img"))
	if err != nil {
		return err
	}
	if err := placeGrub(boot, core); err != nil {
		return err
	}
	if _, err := disk.WriteAt(boot[:bootCodeSize], 0); err != nil {
		return err
	}
	_, err = disk.WriteAt(core, biosStart*sectorSize)
	return err
}

// Where GRUB keeps the sector numbers that its installer fills in: grub-core/boot/i386/pc/boot.S (kernel_sector) and
// diskboot.S (the block list, which grows downwards from the end of core.img's first sector).
const (
	bootCodeSize     = 440  // what follows is the disk's signature and the partition table
	bootKernelSector = 0x5c // in boot.img: where core.img's first sector is, 8 bytes
	coreBlockStart   = sectorSize - 12
	coreBlockLength  = sectorSize - 4 // 2 bytes, in sectors; grub-mkimage sets it
)

// placeGrub writes into boot.img and core.img where core.img will be: at biosStart, in one piece.
func placeGrub(boot, core []byte) error {
	if len(boot) != sectorSize || len(core) <= sectorSize || len(core) > biosLength*sectorSize {
		return fmt.Errorf("boot.img has %d bytes and core.img %d, which is not GRUB for a BIOS", len(boot), len(core))
	}
	want := (len(core) - 1) / sectorSize // the sectors after the first
	if got := int(binary.LittleEndian.Uint16(core[coreBlockLength:])); got != want {
		return fmt.Errorf("core.img counts %d sectors where %d follow: this GRUB has another layout than 2.06 and 2.12",
			got, want)
	}
	if binary.LittleEndian.Uint64(boot[bootKernelSector:]) != 1 {
		return errors.New("boot.img doesn't point to sector 1: this GRUB has another layout than 2.06 and 2.12")
	}
	binary.LittleEndian.PutUint64(boot[bootKernelSector:], biosStart)
	binary.LittleEndian.PutUint64(core[coreBlockStart:], biosStart+1)
	return nil
}
